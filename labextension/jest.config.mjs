/*
 * Tests of the extension, without a browser: jsdom plays the page.
 *
 * Types are checked by `npm run types`; here TypeScript is only turned into what Node runs. So is
 * what JupyterLab and its dependencies publish as ES modules.
 */

const MODULES = [
  '@codemirror',
  '@fortawesome',
  '@jupyter',
  '@jupyterlab',
  '@lezer',
  '@marijn/find-cluster-break',
  '@microsoft',
  '@rjsf',
  'crelt',
  'es-toolkit',
  'exenv-es6',
  'lib0',
  'nanoid',
  'style-mod',
  'vscode-ws-jsonrpc',
  'w3c-keyname',
  'y-codemirror.next',
  'y-protocols',
  'yjs'
];

const compilerOptions = {
  allowJs: true,
  esModuleInterop: true,
  isolatedModules: true,
  module: 'CommonJS',
  moduleResolution: 'Node10',
  resolveJsonModule: true,
  target: 'ES2022'
};

export default {
  testEnvironment: '<rootDir>/tests/page/environment.cjs',
  testMatch: ['<rootDir>/tests/**/*.spec.ts'],
  moduleNameMapper: { '\\.css$': '<rootDir>/tests/page/style.cjs' },
  transform: {
    '\\.[jt]s$': ['ts-jest', { tsconfig: compilerOptions, diagnostics: false }],
    '\\.svg$': '<rootDir>/tests/page/svg.cjs'
  },
  transformIgnorePatterns: [`/node_modules/(?!(${MODULES.join('|')})/)`],
  // Beside what it is made of: a new `npm ci` starts it anew.
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
  clearMocks: true,
  // Milliseconds. A busy machine is no fault; something that hangs still ends.
  testTimeout: 30_000,
  errorOnDeprecated: true
};
