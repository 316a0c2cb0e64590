/** Of each fault that somebody does to the tables one bug that only it shows: nothing else says that chaos sees anything of it. */
export const BY_CHAOS = [
  {
    name: 'chaos-held-inserts',
    breaks:
      'MariaDB: the low-water mark passes the numbers of an INSERT that waits for a lock, and nobody looks at everything',
    file: 'lib/relay/read/probed-low-water-mark.ts',
    from: '    const mark = this.deep ? this.lower : this.upper;\n    return',
    to: '    const mark = this.upper;\n    return',
    chaos: { store: 'mariadb', faults: ['insert-held'], noScan: true },
  },
  {
    name: 'chaos-lease-of-tomorrow',
    breaks: 'a lease in the future is waited for, for as long as it lasts, as chaos sees it',
    file: 'lib/relay/leases/abandoned-leases.ts',
    from: 'if (over.length === 0) return;',
    to: 'if (over.length >= 0) return;',
    chaos: { faults: ['lease-ahead'] },
  },
  {
    name: 'chaos-settled-by-number',
    breaks: 'MariaDB: once numbers begin again, what is settled takes the row with it that has its number by then',
    file: 'lib/store/mysql/ready/settle.ts',
    from: 'and h.seq = k.s where h.id = k.i`',
    to: 'and h.seq = k.s where k.i is not null`',
    chaos: { store: 'mariadb', faults: ['table-emptied', 'broker-delay'] },
  },
].map((mutant) => ({ simulation: false, ...mutant }));
