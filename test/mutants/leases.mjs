/** Leases that nobody can use, and what stands still without a word. */
export const LEASES = [
  {
    name: 'lease-of-tomorrow',
    breaks: 'a lease in the future is waited for, for as long as it lasts',
    file: 'lib/claim/void-leases.ts',
    from: 'if (over.length === 0) return [];',
    to: 'if (over.length > 0) return [];',
    contract: 'test/integration/void-leases.spec.ts',
  },
  {
    name: 'void-at-sight',
    breaks:
      'leases in the future are taken at once, also those that their owner renews: a clock that is set back takes all',
    file: 'lib/claim/void-leases.ts',
    from: 'return asked - since >= longest;',
    to: 'return since <= asked || longest >= 0;',
    contract: 'test/integration/void-leases.spec.ts',
  },
  {
    name: 'heartbeat-of-tomorrow',
    breaks: 'an instance that died while the clock was ahead has its share of the buckets for as long as that',
    file: 'lib/claim/void-leases.ts',
    from: 'return asked - since >= told;',
    to: 'return since < 0 && asked > told;',
    contract: 'test/integration/void-leases.spec.ts',
  },
  {
    name: 'long-lease-in-silence',
    breaks: 'an instance believes in its long lease while others take it for dead',
    file: 'lib/claim/bucket-leases.ts',
    from: 'if (this.alive < this.settings.lease) await this.beat();',
    to: 'if (this.alive > this.settings.lease) await this.beat();',
    contract: 'test/integration/void-leases.spec.ts',
  },
  {
    name: 'lease-broken-under-a-write',
    breaks: 'breaking leases waits for whoever writes under one of them',
    file: 'lib/store/postgres/leases.ts',
    from: 'extract(epoch from l.expires_at)::text = k.u for update skip locked) x)',
    to: 'extract(epoch from l.expires_at)::text = k.u for update) x)',
    contract: 'test/integration/void-leases.spec.ts',
  },
  {
    name: 'renewal-by-place',
    breaks: 'a bucket whose row another session changes just then is lost at the next renewal',
    file: 'lib/store/postgres/leases.ts',
    from: "from mine where ${same('mine')} and l.expires_at > clock_timestamp()",
    to: 'where l.ctid = any(array(select m.ctid from ${leases} m join mine using (transport, bucket))) and l.expires_at > clock_timestamp()',
    contract: 'test/integration/lease-races.spec.ts',
  },
];
