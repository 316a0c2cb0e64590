/** Bugs in the enqueue, which writes in a transaction that is not its own. */
const WATCH = 'lib/enqueue/transaction-watch.ts';
const ENDING = { contract: 'test/integration/enqueue-ending.spec.ts', simulation: false, chaos: false };

export const ENQUEUE = [
  {
    name: 'enqueued-behind-the-rollback',
    breaks: 'what is enqueued while ROLLBACK is on its way is committed by itself',
    file: WATCH,
    from: 'if (!this.state.isOpen) throw over();',
    to: '',
    ...ENDING,
  },
  {
    name: 'watched-from-the-first-enqueue',
    breaks: 'a transaction whose ROLLBACK is on its way when the first message is enqueued counts as active',
    file: WATCH,
    from: '    watch.hear();\n    return start',
    to: '    return start',
    ...ENDING,
  },
  {
    name: 'mariadb-enqueued-behind-a-deadlock',
    breaks: 'MariaDB, MySQL: what is enqueued after a deadlock ended the transaction is committed by itself',
    file: WATCH,
    from: 'await state.settle(() => this.probe(executor));',
    to: '',
    ...ENDING,
    contract: 'test/integration/enqueue-deadlock.spec.ts',
  },
];
