export interface KeptSeed {
  readonly seed: number;
  readonly found: string;
  /** The mutant (`test/mutants`) that puts it back: of it this one history convicts. */
  readonly convictedBy: string;
  /** Nobody looks at everything. */
  readonly noScan?: true;
}

/**
 * Histories that convict something that once was there, each with what it found; they are played in every run of the tests. A
 * change of what `plan.ts` draws, or of how much is drawn on the way, makes them others: `npm run mutants` plants each bug and
 * says which of them are blind. Those are found again with the bug put back.
 */
export const SEEDS: readonly KeptSeed[] = [
  {
    seed: 31122,
    found: 'a relay that was frozen while it connected published after its lease was over (5)',
    convictedBy: 'connecting-takes-no-time',
  },
  {
    seed: 80043335,
    found: 'a message that was requeued after others of its key were taken: the judge took it for one that they passed',
    convictedBy: 'simulated-requeued-meanwhile',
  },
  {
    seed: 3511,
    found: 'a verdict of an old lease written under a new one (6)',
    convictedBy: 'old-verdict-new-lease',
  },
  {
    seed: 3687,
    found: 'of a transaction that committed between fetch and sweep, a later row left without an earlier one (3)',
    convictedBy: 'late-row-from-later-snapshot',
  },
  {
    seed: 10,
    found: 'a row came out of a read that was sent before its settle (12)',
    convictedBy: 'settled-row-read-again',
  },
  { seed: 381, found: 'a ready row overtook parked ones of its key (9)', convictedBy: 'key-cleared-too-early' },
  {
    seed: 4501,
    found: 'rows that a sweep found overtook earlier ones that were given back while it was out (3)',
    convictedBy: 'found-although-given-back',
  },
  {
    seed: 268216,
    found: 'a failure that was written again after a requeue killed the message (13)',
    convictedBy: 'simulated-repark-of-a-former-life',
  },
  {
    seed: 6022,
    found: 'a broker that took connections and no writes killed a message that went alone (13)',
    convictedBy: 'connection-convicts',
  },
  {
    seed: 1344,
    found: 'more blocked keys in memory than there is room for (17)',
    convictedBy: 'kept-for-those-before',
  },
  {
    seed: 9002334,
    found: 'a replica of the simulation gave out numbers of its own rows, and one row took the place of another (1)',
    convictedBy: 'simulated-replica-forgets-numbers',
  },
  {
    seed: 507,
    found:
      'put back: while a snapshot was held, the look at everything was one statement, and nothing was published meanwhile (15)',
    convictedBy: 'scan-in-one-statement',
  },
  {
    seed: 803,
    found: 'put back: a slice that was cancelled failed the read, and the next read asked for the same (15)',
    convictedBy: 'cancelled-slice-fails-the-read',
  },
  {
    seed: 1562,
    found: 'put back: a slice that was cancelled was asked for again as it was (15)',
    convictedBy: 'cancelled-slice-never-shrinks',
  },
  {
    seed: 1238,
    found: 'put back: rows that the upper mark passed waited for the look at everything (15)',
    convictedBy: 'passed-rows-wait-for-the-scan',
    noScan: true,
  },
  {
    seed: 609,
    found: 'put back: nobody asked at the start whether a destination was there (21)',
    convictedBy: 'wrong-name-is-told-by-the-first-message',
  },
  {
    seed: 495,
    found: 'put back: what was missing at the start was never asked about again (21)',
    convictedBy: 'missing-for-ever',
  },
  {
    seed: 89,
    found: 'put back: what waited for a destination was not freed when it came back (15)',
    convictedBy: 'destination-that-is-back-frees-nobody',
  },
  {
    seed: 6657,
    found:
      'cancelled while its second publish failed; a crash had lost that the first one was written: the judge took its receipt for one (11)',
    convictedBy: 'simulated-receipt-of-a-publish-before',
  },
  {
    seed: 500628,
    found: 'the only message that tried a destination was refused itself, and nobody else tried (15)',
    convictedBy: 'poison-keeps-its-destination-away',
  },
  {
    seed: 93002527,
    found:
      'a failover lost a lease, which was had again under the same epoch: what a late statement had marked was never taken again (15)',
    convictedBy: 'same-epoch-after-a-failover',
  },
  {
    seed: 91000424,
    found:
      'a process slept, and its database was away, while numbers went back: the judge asked of it what no answer had told it (8)',
    convictedBy: 'simulated-floor-of-who-was-not-told',
  },
  {
    seed: 91017787,
    found: 'in a global order that was held nobody looked whether numbers went back (8)',
    convictedBy: 'held-order-sees-no-numbers',
  },
  {
    seed: 91051596,
    found:
      'behind an open circuit nothing was read until numbers that went back had reached again what was seen: the judge asked for what nobody can know (8)',
    convictedBy: 'simulated-numbers-seen-that-passed-again',
  },
  {
    seed: 74,
    found:
      'put back: nobody was told that messages are ready and none moves: dead ones of other keys were called a reason (20)',
    convictedBy: 'nothing-ever-stands',
  },
  {
    seed: 87020918,
    found:
      'what the former owner put off for a destination was not freed in a global order whose first look at what holds it failed (15)',
    convictedBy: 'gained-is-forgotten-with-a-failed-look',
  },
  {
    seed: 100190428,
    found:
      'a settle was answered by the server before a failover that lost it, after the one behind had been read: the row waited for the look at everything (15)',
    convictedBy: 'answer-of-the-server-before',
  },
  {
    seed: 100025689,
    found:
      'a crash took back a settle, and the row was cancelled: the judge took the receipt for one that its process has still (11)',
    convictedBy: 'simulated-receipt-that-is-written',
  },
  {
    seed: 100132380,
    found: 'a destination was back while the broker took nothing: the judge asked for what nobody can know (21)',
    convictedBy: 'simulated-asks-during-an-outage',
  },
  {
    seed: 108273574,
    found:
      'a process stood still between the look at the numbers and a sweep, and the table was emptied meanwhile: what the sweep found was published before its predecessors (3)',
    convictedBy: 'late-rows-after-an-old-look',
  },
  {
    seed: 109301206,
    found:
      'for hours two messages broke their connections in turn, each by itself: the judge held one of them alone for a suspect (13, 6)',
    convictedBy: 'simulated-one-suspect-at-a-time',
  },
  {
    seed: 109568025,
    found:
      'numbers went back, and passed unseen what the relay had seen: the judge asked for the order of rows that it found after a later one of their key had been taken (10)',
    convictedBy: 'simulated-parked-while-another-is-taken',
  },
  {
    seed: 109591805,
    found:
      'an INSERT of 16 s was overtaken, which was told: the judge asked for its order, as the later message was refused, and taken again before the row was parked (10)',
    convictedBy: 'simulated-parked-while-another-is-taken',
  },
  {
    seed: 109103629,
    found:
      'a relay took parked rows before its first read, and a failover lost what became of them: it never asked for them again (15)',
    convictedBy: 'marked-before-the-first-read',
  },
  {
    seed: 109647886,
    found:
      'the first read of a relay failed, and a failover lost what became of a parked row that it had taken before (15)',
    convictedBy: 'marked-before-the-first-read',
  },
  {
    seed: 68066,
    found:
      'leases of a day were waited for until the heartbeats of the dead had run out, and for a lease behind that: nobody wanted more before (15)',
    convictedBy: 'future-for-who-wants-more-alone',
  },
  {
    seed: 904645,
    found:
      'as many messages went alone as an owner had in all of its buckets, and these were of others: one killed process after process and was not tried (15)',
    convictedBy: 'suspects-of-one-bucket',
    noScan: true,
  },
  {
    seed: 31701427,
    found:
      'part of the blocked keys was loaded when the lease went, and the next one went on behind it: the keys before that were not known, and waited for ever (15)',
    convictedBy: 'part-of-the-lease-before',
  },
  {
    seed: 52902471,
    found:
      'as many messages went alone as an owner held, and these were parked ones of one key: one that was ready killed process after process (15)',
    convictedBy: 'suspects-of-one-table',
  },
];
