import { readFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';

import ts from 'typescript';

import core from '../core/package.json';
import own from '../package.json';
import plugins from '../src/index';

const ROOT = join(__dirname, '..');

/** Packages that the extension imports at run time: types do not count. */
function imported(): string[] {
  const found = new Set<string>();
  for (const name of readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) {
      continue;
    }
    const text = readFileSync(join(ROOT, 'src', name), 'utf8');
    for (const statement of ts.createSourceFile(name, text, ts.ScriptTarget.ES2022).statements) {
      if (
        ts.isImportDeclaration(statement) &&
        statement.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword
      ) {
        found.add((statement.moduleSpecifier as ts.StringLiteral).text);
      }
    }
  }
  return [...found].filter(name => !name.startsWith('.'));
}

test('every plugin has an id of ours that no other has, and says what it does', () => {
  const ids = plugins.map(plugin => plugin.id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const plugin of plugins) {
    expect(plugin.id).toMatch(/^acp-jupyter:[a-z-]+$/);
    expect(plugin.description).toBeTruthy();
  }
});

test('every page of settings belongs to a plugin', () => {
  const ids = plugins.map(plugin => plugin.id);
  for (const name of readdirSync(join(ROOT, 'schema'))) {
    expect(ids).toContain(`acp-jupyter:${basename(name, '.json')}`);
  }
});

test('what is imported at run time is shared with JupyterLab, not bundled', () => {
  expect(imported()).toContain('@lumino/coreutils');
  const shared = new Set(core.jupyterlab.singletonPackages);
  expect(imported().filter(name => !shared.has(name))).toEqual([]);
});

test('the versions that types, the builder and users are told agree', () => {
  expect(own.peerDependencies).toEqual(core.dependencies);
  expect(own.devDependencies).toMatchObject(core.dependencies);
  expect(Object.keys(core.dependencies)).toEqual(core.jupyterlab.singletonPackages);
  expect(Object.keys(own.peerDependenciesMeta)).toEqual(core.jupyterlab.singletonPackages);
});
