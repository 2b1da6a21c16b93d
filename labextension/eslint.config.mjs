/*
 * What the agent sends is untrusted, so nothing here makes markup of a string: those rules are
 * ours. The rest is typescript-eslint's strict and stylistic sets, with types.
 */

import eslint from '@eslint/js';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

const AS_TEXT = 'Set `textContent` or append nodes; HTML goes through the sanitizer of the app.';

const MARKUP = [
  // Also in `Object.assign(node, { innerHTML })`.
  {
    selector:
      ':matches(MemberExpression[property.name=/^(inner|outer)HTML$|^srcdoc$/], ' +
      'Property[key.name=/^(inner|outer)HTML$|^srcdoc$/])',
    message: AS_TEXT
  },
  {
    selector:
      'MemberExpression[property.name=' +
      '/^(insertAdjacentHTML|setHTMLUnsafe|createContextualFragment|parseFromString)$/]',
    message: AS_TEXT
  },
  {
    selector:
      "CallExpression[callee.property.name='setAttribute'][arguments.0.value=/^(on|srcdoc)/]",
    message: 'Listen with `addEventListener`.'
  }
];

// What the page of the tests is made of.
const NODE_HAS = [
  ...['ArrayBuffer', 'Headers', 'Request', 'Response', 'TextDecoder', 'TextEncoder'],
  ...['Uint8Array', 'fetch', 'module', 'require', 'structuredClone']
];

const TYPESCRIPT = {
  files: ['**/*.ts'],
  extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
  languageOptions: {
    parserOptions: { project: 'tsconfig.check.json', tsconfigRootDir: import.meta.dirname }
  },
  rules: {
    '@typescript-eslint/consistent-type-imports': 'error',
    '@typescript-eslint/naming-convention': [
      'error',
      // As everywhere in JupyterLab. A token has the name of its interface.
      { selector: 'interface', format: ['PascalCase'], prefix: ['I'] },
      { selector: ['class', 'enum', 'typeAlias', 'typeParameter'], format: ['PascalCase'] },
      { selector: 'function', format: ['camelCase'] },
      { selector: 'variable', format: ['camelCase', 'UPPER_CASE', 'PascalCase'] }
    ],
    // Numbers read well in templates; objects do not and stay forbidden.
    '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
    '@typescript-eslint/switch-exhaustiveness-check': [
      'error',
      // What comes over the wire may be of a newer version: a default is not superfluous.
      { allowDefaultCaseForExhaustiveSwitch: true, considerDefaultExhaustiveForUnions: true }
    ],
    // Checks of what comes over the wire look unnecessary to a type that was only asserted.
    '@typescript-eslint/no-unnecessary-condition': 'off',
    // Methods that only an interface asks for, and listeners that have nothing to do.
    '@typescript-eslint/no-empty-function': ['error', { allow: ['arrowFunctions', 'methods'] }],
    // `void promise` says that nobody waits; arrow functions without braces stay short.
    '@typescript-eslint/no-confusing-void-expression': 'off',
    '@typescript-eslint/no-invalid-void-type': 'off'
  }
};

export default defineConfig(
  globalIgnores(['lib/', 'node_modules/']),
  eslint.configs.recommended,
  TYPESCRIPT,
  {
    rules: {
      curly: 'error',
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-console': ['error', { allow: ['error', 'warn'] }],
      'no-eval': 'error',
      'no-implied-eval': 'error',
      'no-restricted-syntax': ['error', ...MARKUP]
    }
  },
  {
    files: ['tests/**'],
    rules: {
      // A test may build a page of markup.
      'no-restricted-syntax': 'off',
      // `expect(thing.method)` and what is known to be there in a test.
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/unbound-method': 'off'
    }
  },
  {
    files: ['**/*.cjs'],
    languageOptions: {
      globals: Object.fromEntries(NODE_HAS.map(name => [name, 'readonly']))
    }
  }
);
