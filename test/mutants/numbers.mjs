/** Numbers of messages: bugs in what the relay concludes from them. */
export const NUMBERS = [
  {
    name: 'numbers-go-back-unseen',
    breaks: 'numbers that go back under a running relay (TRUNCATE, a sequence that is set back) are not noticed',
    file: 'lib/claim/claimer.ts',
    from: 'if (wrong !== undefined) return this.startOver(wrong);',
    to: 'if (wrong === null) return this.startOver(wrong);',
    chaos: false,
    contract: 'test/integration/numbers.spec.ts',
  },
  {
    name: 'known-by-number-alone',
    breaks: 'a message with the number of one that is in flight, and lost in a failover, is taken for that one',
    file: 'lib/claim/known-rows.ts',
    from: 'if (this.ids.get(seq) !== id) return this.displaced.size === 0 || !this.displaced.has(id);',
    to: 'if (!this.ids.has(seq)) return this.displaced.size === 0 || !this.displaced.has(id);',
    simulation: false,
    chaos: false,
    contract: 'test/integration/numbers.spec.ts',
  },
  {
    name: 'low-mark-wrong-in-silence',
    breaks:
      'a row that a full scan finds below the low-water mark is published behind later ones, and nobody hears of it',
    file: 'lib/claim/claimer.ts',
    from: 'if (below !== undefined) return this.startOver(',
    to: 'if (below === null) return this.startOver(',
    simulation: false,
    chaos: false,
    contract: 'test/unit/claimer.spec.ts',
  },
  {
    name: 'position-above-what-was-given-out',
    breaks: 'a sequence that is set back below ready rows: what is enqueued then waits for the full scan',
    file: 'lib/claim/claimer.ts',
    from: 'const isGivenOut = last === undefined || compareSeq(message.seq, last) <= 0;',
    to: 'const isGivenOut = last === undefined || compareSeq(message.seq, last) !== 2;',
    chaos: false,
    contract: 'test/unit/claimer.spec.ts',
  },
  {
    name: 'marks-outlive-a-failover',
    breaks: 'a message that is marked as being sent on a new server, of which the verdict was lost, waits for ever',
    file: 'lib/dispatch/lane.ts',
    from: 'if (startedOver) this.parked.doubt();',
    to: 'if (startedOver === null) this.parked.doubt();',
    simulation: false, // one of some 1,500 histories
    chaos: false,
    contract: 'test/integration/numbers.spec.ts',
  },
];
