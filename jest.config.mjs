import { readFileSync } from 'node:fs';

/** The folder of another TypeORM than the installed one: `npm run matrix -- typeorm`. */
const typeorm = process.env.OUTBOX_TEST_TYPEORM;

/** The package's own names, as `exports` has them, are its sources. */
function entryPoints() {
  const { name, exports } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
  return Object.fromEntries(
    Object.entries(exports).flatMap(([path, targets]) =>
      typeof targets === 'string'
        ? []
        : [
            [
              `^${name}${path.slice(1)}$`,
              targets.import.default.replace('./dist/esm', '<rootDir>/lib').replace(/js$/, 'ts'),
            ],
          ],
    ),
  );
}

/** One configuration for every layer; `npm test` runs all of it through `tools/test.mjs`. */
export default {
  testEnvironment: 'node',
  // lib/ has no tests: coverage finds files there that no test loads.
  roots: ['<rootDir>/test', '<rootDir>/sample', '<rootDir>/lib'],
  testMatch: ['**/*.spec.ts'],
  transform: {
    '^.+\\.(t|j|mj)s$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
          keepClassNames: true,
        },
        module: { type: 'commonjs' },
        sourceMaps: 'inline',
      },
    ],
  },
  // Nest 12 is ESM only: transformed, it runs in Jest's CommonJS mode on every supported Node without a flag.
  transformIgnorePatterns: [
    '/node_modules/(?!(@nestjs|file-type|strtok3|token-types|@tokenizer|@borewit|uint8array-extras)/)',
  ],
  moduleNameMapper: {
    ...(typeorm === undefined ? {} : { '^typeorm$': typeorm }),
    ...entryPoints(),
    '^(\\.{1,2}/.*)\\.js$': ['$1.ts', '$1.js'],
  },
  setupFiles: ['<rootDir>/test/support/async-storages.ts'],
  // `npm run coverage`: what runs in the process of a test; processes that tests start are not counted.
  collectCoverageFrom: ['lib/**/*.ts'],
  coverageProvider: 'v8',
  coverageReporters: ['text-summary', 'html', 'json-summary'],
  testSequencer: '<rootDir>/test/support/slow-first.mjs',
  testTimeout: 600_000,
  maxWorkers: 3, // on two cores: half of the time of most is spent waiting
};
