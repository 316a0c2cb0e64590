/** Bugs of the store of the simulation, and those of which chaos is the judge: nothing else shows that these layers see anything. */
export const HARNESS = [
  {
    name: 'simulated-lease-before-its-time',
    breaks: 'the store gives a lease away that has not expired',
    file: 'test/simulation/store/memory-leases.ts',
    from: 'row.transport === transport && row.expiresAt <= now && ',
    to: 'row.transport === transport && ',
    chaos: false,
  },
  {
    name: 'simulated-epoch-twice',
    breaks: 'the store gives two owners in a row the same epoch',
    file: 'test/simulation/store/memory-leases.ts',
    from: 'row.epoch += 1n;',
    to: 'if (before.owner === null) row.epoch += 1n;',
    chaos: false,
  },
  {
    name: 'simulated-archived-twice',
    breaks: 'the store puts what is settled into the archive twice',
    file: 'test/simulation/store/memory-ready.ts',
    from: 'for (const row of gone) database.archive.add(',
    to: 'for (const row of [...gone, ...gone]) database.archive.add(',
    chaos: false,
  },
  {
    simulation: false,
    name: 'chaos-held-inserts',
    breaks:
      'MariaDB: the low-water mark passes the numbers of an INSERT that waits for a lock, and nobody looks at everything',
    file: 'lib/relay/read/probed-low-water-mark.ts',
    from: `    const mark = this.deep ? this.lower : this.upper;
    return`,
    to: `    const mark = this.upper;
    return`,
    chaos: { store: 'mariadb', faults: ['insert-held'], noScan: true },
  },
  {
    simulation: false,
    name: 'chaos-settled-by-number',
    breaks: 'MariaDB: once numbers begin again, what is settled takes the row with it that has its number by then',
    file: 'lib/store/mysql/ready/settle.ts',
    from: 'and h.seq = k.s where h.id = k.i`',
    to: 'and h.seq = k.s where k.i is not null`',
    chaos: { store: 'mariadb', faults: ['table-emptied', 'broker-delay'] },
  },
];
