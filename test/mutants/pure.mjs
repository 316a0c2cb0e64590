// npm run mutants:pure [-- --mutate lib/relay/settle/decide.ts]
// Bugs that StrykerJS makes by itself, in files that do no I/O: each condition, comparison, sum and call is changed in turn, and the unit
// specs of the file are asked. In place of bugs that are planted by hand there: those are pinned to the text of a source.
// Fails when less than `break` percent are convicted. Those that survive are printed: a case that is missing, or a change that means nothing.
export default {
  testRunner: 'jest',
  plugins: ['@stryker-mutator/jest-runner'],
  mutate: [
    'lib/message/{bucket-of,key-bytes,lossless,serializer,unread-payload,uuid-v7}.ts',
    'lib/time/duration.ts',
    'lib/options/{did-you-mean,resolve,rules,transport-option}.ts',
    'lib/enqueue/{draft,headers,payload,to-message}.ts',
    'lib/relay/settle/{backoff,decide}.ts',
    'lib/relay/publish/{circuit,trial}.ts',
    'lib/relay/order/{due-rows,key-queues}.ts',
    'lib/relay/leases/fair-share.ts',
    'lib/relay/ledger.ts',
    'lib/relay/read/{number-watch,snapshot-low-water-mark}.ts',
    'lib/observe/{counted-reasons,health,seen-relays,standing,standstill}.ts',
    'lib/observe/redact/{credentials,error-text,printable,secrets}.ts',
    'lib/admin/explanation.ts',
    'lib/partitions/plan.ts',
  ],
  jest: { projectType: 'custom', configFile: 'test/mutants/jest.pure.mjs', enableFindRelatedTests: true },
  coverageAnalysis: 'perTest',
  // What is said is read by the tests of texts.
  mutator: { excludedMutations: ['StringLiteral', 'ObjectLiteral', 'Regex'] },
  ignoreStatic: true,
  concurrency: 2,
  reporters: ['clear-text'],
  clearTextReporter: { logTests: false, allowColor: false },
  tempDirName: '.cache/mutants',
  ignorePatterns: ['bench', 'dist*', 'coverage'],
  thresholds: { high: 90, low: 85, break: 85 },
};
