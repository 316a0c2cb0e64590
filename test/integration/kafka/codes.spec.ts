import { logLevel, type SASLOptions } from 'kafkajs';
import type { OutboxDispatcher, OutboxTransport } from '../../../lib/index.js';
import { kafka, type KafkaOptions } from '../../../lib/transports/kafka/index.js';
import { CANARY, SECRETS } from '../../security/canaries.js';
import { publish } from '../../support/publish.js';
import { messages, TestTopics } from '../../support/kafka.js';
import { KafkaNode, type Right } from '../../support/kafka-node.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeUnlessMissing, serviceUrl, type Service } from '../../support/services.js';
import { until } from '../../support/until.js';
import { watch } from '../../support/watched.js';

/** Where a row happens: a user, a topic and a transactional id of its own. */
interface Place {
  readonly user: string;
  readonly topic: string;
  readonly transactionalId: string;
  /** How the next connection logs in. */
  login: SASLOptions | undefined;
  /** Milliseconds that the next producer asks for. */
  transactionTimeout: number;
  readonly allow: (...rights: Right[]) => Promise<void>;
  readonly create: () => Promise<unknown>;
}
interface Row {
  readonly code: string;
  readonly what: string;
  /** What of it the failure says, where kafkajs hides the code. */
  readonly says?: string;
  readonly blame: 'destination' | 'transport';
  readonly isMissing?: true;
  /** Before the relay starts. Default: every topic and transactional id may be written to. */
  readonly rights?: (place: Place) => Right[];
  readonly before?: (place: Place) => void;
  readonly options?: (place: Place) => Partial<KafkaOptions>;
  /** After a first message went through. */
  readonly cause?: (place: Place) => Promise<void>;
  /** Default: it passes by itself. */
  readonly cure?: (place: Place) => unknown;
}
const EVERYTHING: Right[] = [
  ['WRITE', 'TOPIC', '*'],
  ['WRITE', 'TRANSACTIONAL_ID', '*'],
];
/** A right to write to any topic is a right to write idempotently. */
const ELSEWHERE: Right = ['WRITE', 'TOPIC', 'somewhere-else'];
const PASSWORD = CANARY.saslPassword;
const login = (user: string, password: string = PASSWORD, mechanism = 'plain') =>
  ({ mechanism, username: user, password }) as SASLOptions;
const mayWrite = ({ allow, topic }: Place) => allow(['WRITE', 'TOPIC', topic]);
const fencing = ({ transactionalId }: Place) => ({ fencing: { transactionalId } });
const logIn = (place: Place) => (place.login = login(place.user));

const ROWS: readonly Row[] = [
  {
    code: 'TOPIC_AUTHORIZATION_FAILED',
    what: 'no right to know of the topic',
    blame: 'transport',
    rights: () => [ELSEWHERE],
    cure: mayWrite,
  },
  {
    code: 'TOPIC_AUTHORIZATION_FAILED',
    what: 'a right to know of it, none to write',
    blame: 'transport',
    rights: ({ topic }) => [ELSEWHERE, ['DESCRIBE', 'TOPIC', topic]],
    cure: mayWrite,
  },
  {
    code: 'UNKNOWN_TOPIC_OR_PARTITION',
    what: 'no such topic',
    blame: 'destination',
    isMissing: true,
    cure: ({ create }) => create(),
  },
  {
    code: 'CLUSTER_AUTHORIZATION_FAILED',
    what: 'idempotent without a right to write to any topic',
    blame: 'transport',
    rights: ({ topic }) => [['DESCRIBE', 'TOPIC', topic]],
    cure: mayWrite,
  },
  {
    code: 'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
    what: 'no right to know of the transactional id',
    says: 'KafkaJSGroupCoordinatorNotFound',
    blame: 'transport',
    rights: ({ topic }) => [['WRITE', 'TOPIC', topic]],
    options: fencing,
    cure: ({ allow, transactionalId }) => allow(['WRITE', 'TRANSACTIONAL_ID', `${transactionalId}*`]),
  },
  {
    code: 'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
    what: 'a right to know of it, none to write with it',
    blame: 'transport',
    rights: ({ topic, transactionalId }) => [
      ['WRITE', 'TOPIC', topic],
      ['DESCRIBE', 'TRANSACTIONAL_ID', `${transactionalId}*`],
    ],
    options: fencing,
    cure: ({ allow, transactionalId }) => allow(['WRITE', 'TRANSACTIONAL_ID', `${transactionalId}*`]),
  },
  {
    code: 'SASL_AUTHENTICATION_FAILED',
    what: 'a wrong password',
    says: 'Invalid username or password',
    blame: 'transport',
    before: (place) => (place.login = login(place.user, CANARY.clientPassword)),
    cure: logIn,
  },
  {
    code: 'UNSUPPORTED_SASL_MECHANISM',
    what: 'a way to log in that the broker does not have',
    blame: 'transport',
    before: (place) => (place.login = login(place.user, PASSWORD, 'scram-sha-256')),
    cure: logIn,
  },
  {
    code: 'ILLEGAL_SASL_STATE',
    what: 'no login where one is asked for',
    says: 'KafkaJSConnectionClosedError',
    blame: 'transport',
    before: (place) => (place.login = undefined),
    cure: logIn,
  },
  {
    code: 'INVALID_TRANSACTION_TIMEOUT',
    what: 'longer transactions than the broker allows',
    blame: 'transport',
    options: fencing,
    before: (place) => (place.transactionTimeout = 3_600_000),
    cure: (place) => (place.transactionTimeout = 60_000),
  },
  {
    code: 'INVALID_PRODUCER_EPOCH',
    what: 'another producer has the transactional id',
    blame: 'transport',
    options: ({ transactionalId }) => ({ transactional: { transactionalId }, producers: 1 }),
    cause: async (place) => {
      const newer = await open(place, { transactional: { transactionalId: place.transactionalId }, producers: 1 });
      expect(await publish(newer, messages(place.topic, 1))).toEqual([{ ok: true }]);
      await newer.close!();
    },
  },
];
const USERS = Object.fromEntries(ROWS.map((_, n) => [`user${n}`, PASSWORD]));

let node: KafkaNode;
function open(place: Place, options: Partial<KafkaOptions> = {}): Promise<OutboxTransport> {
  const client = {
    clientId: 'outbox-test',
    brokers: [node.saslUrl],
    logLevel: logLevel.NOTHING,
    get sasl() {
      return place.login as SASLOptions;
    },
  };
  const producer = {
    get transactionTimeout() {
      return place.transactionTimeout;
    },
  };
  return kafka({ client, producer, ...options }).create() as Promise<OutboxTransport>;
}

const missing: Service[] = KafkaNode.isInstalled ? [] : ['kafka'];
if (serviceUrl('postgres') === undefined) missing.push('postgres');

/** One message that is refused, and what it takes to have it published by the transport that was refused. */
describeUnlessMissing(missing, 'what Kafka refuses whom', () => {
  const topics = new TestTopics(() => node.config());
  let harness: Harness;
  let running: OutboxDispatcher | undefined;
  beforeAll(async () => {
    [node, harness] = await Promise.all([
      KafkaNode.start(USERS),
      createHarness('postgres', { retry: { maxAttempts: null, initial: 50, max: 200 } }),
    ]);
    await topics.start();
  });
  afterEach(async () => {
    await running?.stop();
    expect(await harness.secretsTold()).toEqual([]);
    for (const table of ['ready', 'parked']) await harness.dataSource.query(`delete from outbox_${table}`);
  });
  afterAll(async () => {
    try {
      await harness?.close();
      await topics.admin?.disconnect(); // the topics go with their broker
    } finally {
      await node?.stop();
    }
  });

  const placeOf = async ({ isMissing, rights, before }: Row): Promise<Place> => {
    const [user, topic] = [`user${placed++}`, isMissing ? TestTopics.name() : await topics.create()];
    const { admin } = topics;
    const place: Place = {
      user,
      topic,
      transactionalId: `${topic}-tx`,
      login: login(user),
      transactionTimeout: 60_000,
      allow: (...given) => node.allow(admin, user, given),
      create: () => topics.create(1, {}, topic),
    };
    await place.allow(...(rights?.(place) ?? EVERYTHING));
    before?.(place);
    return place;
  };
  let placed = 0;

  it.each(ROWS)('C10, C18, R5: $code, $what: the $blame’s, and it goes on where it was', async (row) => {
    const place = await placeOf(row);
    const { code, says = code, blame, cause, cure } = row;
    const transport = await open(place, row.options?.(place));
    const batches = watch(transport);
    const results = (id: string) =>
      batches.flatMap((batch) => (batch.ids.includes(id) ? [batch.results[batch.ids.indexOf(id)]] : []));
    const isPublished = (id: string) => until(() => results(id).some((result) => result?.ok === true));
    const { dispatcher, hooks } = harness.relay({ default: transport });
    running = dispatcher;
    const enqueue = async () => {
      const [id] = await harness.enqueue([{ ...SECRETS, topic: place.topic, key: 'k' }]);
      dispatcher.nudge();
      return id!;
    };
    await dispatcher.start();
    if (cause !== undefined) {
      await isPublished(await enqueue());
      await cause(place);
    }
    const id = await enqueue();
    const told = () => hooks.of(blame === 'destination' ? 'destinationAway' : 'circuitOpened');
    await until(() => told().some(({ error }) => error.includes(says)));
    await cure?.(place);
    await isPublished(id);
    await until(async () => (await harness.count('ready')) + (await harness.count('parked')) === 0);
    const refused = results(id).flatMap((result) => (result === undefined || result.ok ? [] : [result.blame]));
    expect(refused).not.toContain('message');
    // No attempt is charged for an outage, and no circuit opens for one topic.
    expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]);
    if (blame === 'destination') expect(hooks.of('circuitOpened')).toEqual([]);
    expect(hooks.of('dead')).toEqual([]);
    // The mark of a committed transaction comes after the answer.
    await until(async () => (await topics.total(place.topic).catch(() => 0)) > 0);
  });
});
