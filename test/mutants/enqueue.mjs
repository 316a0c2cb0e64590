/** Bugs in the enqueue, which writes in a transaction that is not its own. */
const WATCH = 'lib/enqueue/transaction-watch.ts';
const SAVEPOINTS = 'test/integration/enqueue-savepoints.spec.ts';
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
    name: 'savepoint-in-the-middle-of-a-write',
    breaks: 'a SAVEPOINT passes a write that is in flight, of which a part goes back with it',
    file: WATCH,
    from: 'if (boundary !== undefined && this.inFlight.size > 0)',
    to: "if (boundary !== undefined && boundary !== 'save' && this.inFlight.size > 0)",
    ...ENDING,
    contract: SAVEPOINTS,
  },
  {
    name: 'told-although-taken-back',
    breaks: 'what ROLLBACK TO took back is told as committed',
    file: WATCH,
    from: 'tell(written.wentBack(name()), false);',
    to: '',
    ...ENDING,
    contract: SAVEPOINTS,
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
