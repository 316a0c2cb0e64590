import { compressed, type Serializer } from '../lib/index.js';
import { jsonSerializer } from '../lib/message/json-serializer.js';
import { argument, percentile, round, Samples, timed } from './support/measure.js';
import { bench } from './support/run.js';

/**
 * What does `compressed()` cost Node for one message at the enqueue, and its handler, and how many bytes does it save? Of orders whose JSON
 * has about so many bytes: ids and amounts are random, names are not.
 *   npm run bench -- compress [megabytes=40] [repeats=5]
 */
const megabytes = argument(0, 'megabytes', 40);
const repeats = argument(1, 'repeats', 5);
const SIZES = [1_000, 2_000, 4_000, 10_000, 100_000];
const CONTEXT = { type: 'order.placed', version: 1 };

const line = (random: () => number): object => ({
  productId: `${hex(random)}-${hex(random)}`,
  name: NAMES[Math.floor(random() * NAMES.length)],
  quantity: 1 + Math.floor(random() * 9),
  price: round(random() * 200, 2),
});
const NAMES = ['Coffee, ground, 500 g', 'Espresso machine', 'Paper filters, 100 pieces', 'Cup, 200 ml', 'Grinder'];
const hex = (random: () => number): string => Math.floor(random() * 2 ** 32).toString(16);

/** The same in every run. */
function pseudoRandom(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 16_807) % 2_147_483_647) / 2_147_483_647;
}

function orderOf(bytes: number, seed: number): object {
  const random = pseudoRandom(seed);
  const order = { orderId: `order-${seed}`, customer: { id: hex(random), country: 'CH' }, lines: [] as object[] };
  for (let size = JSON.stringify(order).length; size < bytes;) {
    const next = line(random);
    order.lines.push(next);
    size += JSON.stringify(next).length + 1;
  }
  return order;
}

/** Microseconds of Node a message, and its bytes. */
async function cost(serializer: Serializer, orders: readonly object[], times: number) {
  const made = orders.map((order) => serializer.serialize(order, CONTEXT));
  const all = made.map((one) =>
    one instanceof Uint8Array ? { bytes: one, headers: {} } : { bytes: one.bytes, headers: one.headers ?? {} },
  );
  const write = await timed(async () => {
    for (let n = 0; n < times; n++) for (const order of orders) serializer.serialize(order, CONTEXT);
  });
  const read = await timed(async () => {
    for (let n = 0; n < times; n++)
      for (const { bytes, headers } of all) serializer.deserialize(bytes, { ...CONTEXT, headers });
  });
  const count = times * orders.length;
  return {
    write: write.cpu / count,
    read: read.cpu / count,
    bytes: percentile(
      all.map(({ bytes }) => bytes.length),
      50,
    ),
  };
}

bench('compress', async () => {
  const samples = new Samples();
  const serializers = { plain: jsonSerializer, gzip: compressed(undefined, { above: 0 }) };
  for (let repeat = 0; repeat < repeats; repeat++)
    for (const size of SIZES) {
      const orders = Array.from({ length: 10 }, (_, n) => orderOf(size, n + 1));
      const times = Math.max(1, Math.round((megabytes * 1e6) / size / orders.length / SIZES.length));
      for (const [name, serializer] of Object.entries(serializers)) {
        const { write, read, bytes } = await cost(serializer, orders, times);
        samples.add({
          [`${size} ${name} write`]: write,
          [`${size} ${name} read`]: read,
          [`${size} ${name} bytes`]: bytes,
        });
      }
    }
  return samples.medians();
});
