import { AggregatorRegistry, Registry } from 'prom-client';
import { METRICS } from '../../../lib/prometheus/catalogue.js';
import { OutboxPrometheus, type OutboxPrometheusOptions } from '../../../lib/prometheus/index.js';
import { createUuidV7 } from '../../../lib/message/uuid-v7.js';
import { FakeOutbox } from './fake-outbox.js';

function begin(options: Partial<OutboxPrometheusOptions> = {}, registry = new Registry()) {
  const outbox = new FakeOutbox();
  const metrics = new OutboxPrometheus(outbox as never, { registry, ...options }, outbox.clock);
  const lines = async (pattern = /^outbox_/): Promise<string[]> =>
    (await registry.metrics()).split('\n').filter((line) => pattern.test(line));
  return { outbox, metrics, registry, lines };
}
const idAt = (ms: number): string => createUuidV7({ now: () => ms })();

describe('metrics for Prometheus: what is counted', () => {
  it('has every metric of the catalogue, each with its type and a line of help', async () => {
    const { registry } = begin();
    const all = await registry.getMetricsAsJSON();
    expect(all.map(({ name, type, help }) => ({ name, type, help }))).toEqual(
      METRICS.map(({ name, type, help }) => ({ name, type, help })),
    );
    expect(METRICS.filter(({ name, type }) => (type === 'counter') !== name.endsWith('_total'))).toEqual([]);
  });

  it('measures publishes and handlers of relays that start while it is open', async () => {
    const { outbox, metrics, lines } = begin();
    await outbox.publish(40);
    await outbox.publish(2_000);
    await outbox.publish(300, new Error('no such address'));
    const shown = await lines(/^outbox_(publish|handler)_seconds_(sum|count|bucket\{le="0.05")/);
    expect(shown.map((line) => line.replace('outbox="default",', ''))).toEqual([
      'outbox_publish_seconds_bucket{le="0.05",transport="events",result="ok"} 1',
      'outbox_publish_seconds_sum{transport="events",result="ok"} 2.04',
      'outbox_publish_seconds_count{transport="events",result="ok"} 2',
      'outbox_publish_seconds_bucket{le="0.05",transport="events",result="failed"} 0',
      'outbox_publish_seconds_sum{transport="events",result="failed"} 0.3',
      'outbox_publish_seconds_count{transport="events",result="failed"} 1',
      'outbox_handler_seconds_bucket{le="0.05",handler="Mailer.mail",result="ok"} 1',
      'outbox_handler_seconds_sum{handler="Mailer.mail",result="ok"} 2.04',
      'outbox_handler_seconds_count{handler="Mailer.mail",result="ok"} 2',
      'outbox_handler_seconds_bucket{le="0.05",handler="Mailer.mail",result="failed"} 0',
      'outbox_handler_seconds_sum{handler="Mailer.mail",result="failed"} 0.3',
      'outbox_handler_seconds_count{handler="Mailer.mail",result="failed"} 1',
    ]);
    metrics.close();
    expect(outbox.runtime.wrappers).toEqual([]);
  });

  it('shows for how long a snapshot has been held', async () => {
    const { outbox, lines } = begin();
    const held = async (): Promise<string | undefined> =>
      (await lines(/^outbox_snapshot_held_seconds/))[0]?.split(' ')[1];
    const told = { server: 'PostgreSQL', table: 'outbox_ready', holder: 'session 1', heldFor: 90_000 };
    expect(await held()).toBe('0');
    await outbox.tell('snapshotHeld', told);
    await outbox.clock.advance(5_000);
    expect(await held()).toBe('95');
    await outbox.tell('snapshotReleased', told);
    expect(await held()).toBe('0');
  });

  it('counts what the events tell, by transport', async () => {
    const { outbox, lines } = begin();
    await outbox.tell('started', { role: 'relay', transports: ['events'], buckets: 32 });
    expect(await lines(/_messages_(published|dead)_total\{|_attempts_count|batch_messages_sum|collateral/)).toEqual([
      'outbox_messages_published_total{outbox="default",transport="events"} 0',
      'outbox_messages_dead_total{outbox="default",transport="events"} 0',
      'outbox_publish_failures_total{outbox="default",transport="events",blame="collateral"} 0',
      'outbox_published_batch_messages_sum{outbox="default",transport="events"} 0',
      'outbox_failed_message_attempts_count{outbox="default",transport="events"} 0',
    ]);
    const failed = { transport: 'events', id: 'x', type: 't', topic: 't', error: 'no' };
    await outbox.tell('enqueued', { ids: ['a', 'b', 'c'] });
    await outbox.tell('deduplicated', { ids: ['a'] });
    await outbox.tell('published', { transport: 'events', ids: ['a', 'b'], batches: [1] });
    await outbox.tell('failed', { transport: 'events', count: 7, blame: 'transport', exampleId: 'id-1', error: 'no' });
    await outbox.tell('retried', { ...failed, attempts: 1, delay: 5 });
    await outbox.tell('dead', { ...failed, attempts: 4 });
    await outbox.tell('circuitOpened', { transport: 'events', error: 'no', retryIn: 1 });
    await outbox.tell('destinationAway', { transport: 'events', destination: 'q', error: 'no' });
    await outbox.tell('leasesAcquired', { transport: 'events', buckets: [1, 2, 3] });
    await outbox.tell('leasesLost', { transport: 'events', buckets: [1] });
    await outbox.tell('leasesExpired', { owner: 'x', buckets: 9 });
    await outbox.tell('cleaned', { published: 1, dead: 2, dedup: 3 });
    await outbox.tell('error', { operation: 'fetch', error: new Error('no'), retryIn: 1 });
    await outbox.tell('warning', { text: 'hm' });
    outbox.events.dropped = 5;
    expect((await lines(/_total\{/)).map((line) => line.replace('outbox="default"', '').replace('{,', '{'))).toEqual([
      'outbox_messages_enqueued_total{} 3',
      'outbox_messages_deduplicated_total{} 1',
      'outbox_messages_published_total{transport="events"} 2',
      'outbox_messages_retried_total{transport="events"} 1',
      'outbox_messages_dead_total{transport="events"} 1',
      'outbox_publish_failures_total{transport="events",blame="message"} 0',
      'outbox_publish_failures_total{transport="events",blame="transport"} 7',
      'outbox_publish_failures_total{transport="events",blame="collateral"} 0',
      'outbox_circuit_opened_total{transport="events"} 1',
      'outbox_destination_away_total{transport="events"} 1',
      'outbox_bucket_leases_acquired_total{transport="events"} 3',
      'outbox_bucket_leases_lost_total{transport="events"} 1',
      'outbox_bucket_leases_expired_total{} 9',
      'outbox_cleaned_rows_total{kind="published"} 1',
      'outbox_cleaned_rows_total{kind="dead"} 2',
      'outbox_cleaned_rows_total{kind="dedup"} 3',
      'outbox_errors_total{operation="fetch"} 1',
      'outbox_warnings_total{} 1',
      'outbox_events_dropped_total{} 5',
      'outbox_count_failures_total{} 0',
    ]);
    expect(await lines(/_attempts_(bucket\{le="[135]"|sum)/)).toEqual([
      'outbox_failed_message_attempts_bucket{le="1",outbox="default",transport="events"} 1',
      'outbox_failed_message_attempts_bucket{le="3",outbox="default",transport="events"} 1',
      'outbox_failed_message_attempts_bucket{le="5",outbox="default",transport="events"} 2',
      'outbox_failed_message_attempts_sum{outbox="default",transport="events"} 5',
    ]);
  });

  it('takes the time from commit to publish from the id, but of what was scheduled and of ids without a time', async () => {
    const { outbox, lines } = begin({ buckets: [0.1, 1] });
    const now = outbox.clock.wall();
    const [quick, slow, ahead, scheduled] = [now - 50, now - 4_000, now + 300, now - 3_600_000].map(idAt) as string[];
    const other = '0b9d5a2e-6f3c-4c1e-9a77-2f1f6c1f9a10';
    const ids = [quick, slow, ahead, scheduled, other] as string[];
    await outbox.tell('published', { transport: 'events', ids, batches: [1], scheduled: [scheduled as string] });
    expect(await lines(/commit_to_publish_seconds_/)).toEqual([
      'outbox_commit_to_publish_seconds_bucket{le="0.1",outbox="default",transport="events"} 2',
      'outbox_commit_to_publish_seconds_bucket{le="1",outbox="default",transport="events"} 2',
      'outbox_commit_to_publish_seconds_bucket{le="+Inf",outbox="default",transport="events"} 3',
      'outbox_commit_to_publish_seconds_sum{outbox="default",transport="events"} 4.05',
      'outbox_commit_to_publish_seconds_count{outbox="default",transport="events"} 3',
    ]);
  });

  it('shows what health and stats answer', async () => {
    const { outbox, lines } = begin();
    expect(
      (await lines(/^outbox_(messages|health_status|circuit_state)\{/)).map((line) =>
        line.replace(/outbox="default",/, ''),
      ),
    ).toEqual([
      'outbox_health_status{status="up"} 0',
      'outbox_health_status{status="degraded"} 1',
      'outbox_health_status{status="down"} 0',
      'outbox_circuit_state{transport="events",state="closed"} 0',
      'outbox_circuit_state{transport="events",state="open"} 0',
      'outbox_circuit_state{transport="events",state="probing"} 1',
      'outbox_circuit_state{transport="events",state="blocked"} 0',
      'outbox_circuit_state{transport="events",state="idle"} 0',
      'outbox_messages{transport="events",state="ready"} 5',
      'outbox_messages{transport="events",state="scheduled"} 1',
      'outbox_messages{transport="events",state="waiting"} 2',
      'outbox_messages{transport="events",state="blocked"} 3',
      'outbox_messages{transport="events",state="dead"} 4',
    ]);
    expect(await lines(/^outbox_health_reasons\{.* [1-9]/)).toEqual([
      'outbox_health_reasons{outbox="default",reason="relay_stopped"} 1',
      'outbox_health_reasons{outbox="default",reason="dead_letters"} 1',
    ]);
    const one = Object.fromEntries(
      (
        await lines(
          /^outbox_(relay|database|heartbeat|snapshot|blocked|oldest|failing|most|leased|missing|instances|destinations|counts|paused)_?/,
        )
      ).map((line) => [line.replace(/\{.*/, ''), Number(line.split(' ').at(-1))] as const),
    );
    expect(one).toEqual({
      outbox_relay_running: 1,
      outbox_oldest_snapshot_seconds: 90,
      outbox_oldest_snapshot_transactions: 12,
      outbox_snapshot_held_seconds: 0,
      outbox_database_failing_seconds: 2.5,
      outbox_heartbeat_late_seconds: 0.04,
      outbox_snapshot_held: 0,
      outbox_paused_seconds: 60,
      outbox_blocked_keys: 6,
      outbox_oldest_ready_age_seconds: 1.5,
      outbox_failing_often_messages: 1,
      outbox_most_attempts: 12,
      outbox_leased_buckets: 32,
      outbox_missing_leases: 0,
      outbox_instances: 2,
      outbox_destinations_away: 1,
      outbox_counts_cut: 0,
      outbox_counts_age_seconds: 0,
    });
    outbox.counts = { ...outbox.counts, transports: {} };
    await outbox.clock.advance(15_000);
    expect(await lines(/^outbox_messages\{/)).toEqual([]); // one that is gone leaves no line
  });
});

describe('metrics for Prometheus: the registry', () => {
  it('holds several outboxes, each by its name, and refuses one twice', async () => {
    const { registry, metrics, lines } = begin();
    const audit = begin({ name: 'audit' }, registry);
    await audit.outbox.tell('enqueued', { ids: ['a'] });
    const enqueued = /^outbox_messages_enqueued_total\{/;
    expect(await lines(enqueued)).toEqual([
      'outbox_messages_enqueued_total{outbox="default"} 0',
      'outbox_messages_enqueued_total{outbox="audit"} 1',
    ]);
    expect(() => begin({ name: 'audit' }, registry)).toThrow(/shows an outbox 'audit' already\. Give the name/);
    metrics.onApplicationShutdown();
    expect(await lines(enqueued)).toEqual(['outbox_messages_enqueued_total{outbox="audit"} 1']);
    audit.metrics.close();
    expect(registry.getMetricsAsArray()).toEqual([]);
    expect(audit.outbox.events.has('published')).toBe(false); // the relay need not build the event
    begin({}, registry);
    expect(registry.getMetricsAsArray()).toHaveLength(METRICS.length);
  });

  it('is taken as it is: cleared before, with labels of its own, for OpenMetrics, for a cluster', async () => {
    const { registry, lines } = begin();
    registry.clear();
    const audit = begin({ name: 'audit' }, registry);
    registry.setDefaultLabels({ app: 'shop' });
    registry.resetMetrics();
    expect(await lines(/^outbox_warnings_total\{/)).toEqual([
      'outbox_warnings_total{outbox="default",app="shop"} 0',
      'outbox_warnings_total{outbox="audit",app="shop"} 0',
    ]);
    audit.metrics.close();

    const open = new Registry();
    open.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never);
    const shown = begin({}, open);
    for (let scrape = 0; scrape < 2; scrape++) {
      const text = await open.metrics();
      expect(text).toContain('# TYPE outbox_warnings counter\noutbox_warnings_total{outbox="default"} 0\n');
      expect(text).toContain('# EOF');
    }
    shown.metrics.close();
    expect(open.getMetricsAsArray()).toEqual([]);

    const workers = await Promise.all([begin(), begin()].map(({ registry: one }) => one.getMetricsAsJSON()));
    const merged = await AggregatorRegistry.aggregate(workers as never).metrics();
    expect(merged).toContain('outbox_messages{outbox="default",transport="events",state="ready"} 5');
  });

  it.each([
    [{ registry: {} as never }, /registry must be a Registry of prom-client/],
    [{ name: '' }, /name must be/],
    [{ countEvery: '10ms' }, /countEvery must be a duration from 1s to 1h/],
    [{ countTimeout: 'soon' as never }, /countTimeout must be a duration from 10ms to 60s/],
    [{ buckets: [1, 1] }, /buckets must be numbers above 0 that ascend/],
    [{ buckets: [] }, /buckets must be/],
    [{ bucket: [1] } as never, /bucket is no option .did you mean 'buckets'/],
  ] as const)('refuses %j', (options, problem) => {
    expect(() => begin(options)).toThrow(problem);
  });
});
