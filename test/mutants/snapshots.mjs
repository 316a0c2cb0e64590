/** Scans in slices, and sessions that hold a snapshot. */
export const SNAPSHOTS = [
  {
    name: 'scan-in-one-statement',
    breaks:
      'a full scan is one statement, which grows with what is gone and cannot be removed while a snapshot is held',
    file: 'lib/claim/reach.ts',
    from: 'if (from <= BigInt(range.after)) return range;',
    to: 'if (from !== undefined) return range;',
    contract: 'test/unit/late-rows.spec.ts',
    simulation: false,
    chaos: false,
  },
  {
    name: 'the-way-to-the-server-counts',
    breaks: 'slices shrink where the server is far or busy, until a turn of the full scan takes days',
    file: 'lib/claim/reach.ts',
    from: 'const walked = ms - this.least;',
    to: 'const walked = ms;',
    contract: 'test/unit/late-rows.spec.ts',
    simulation: false,
    chaos: false,
  },
  {
    name: 'cancelled-slice-fails-the-read',
    breaks: 'a slice of the full scan that is cancelled fails the read, and the next read asks for the same',
    file: 'lib/claim/late-rows.ts',
    from: 'if (this.scan.cancelled(began, this.clock.monotonic())) return [];',
    to: '',
    contract: 'test/unit/late-rows.spec.ts',
    simulation: false,
    chaos: false,
  },
  {
    name: 'scanned-out-of-order',
    breaks: 'what a slice of the full scan meets goes before what is behind the floor below it',
    file: 'lib/claim/late-rows.ts',
    from: 'this.all ||= scanned.some(',
    to: 'this.all ||= false && scanned.some(',
    contract: 'test/unit/late-rows.spec.ts',
    simulation: false,
    chaos: false,
  },
];
