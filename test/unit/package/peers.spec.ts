import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const manifest = JSON.parse(readFileSync(join(__dirname, '../../../package.json'), 'utf8')) as object;
const { peerDependencies, devDependencies } = manifest as Record<
  'peerDependencies' | 'devDependencies',
  Record<string, string>
>;

it('the package has no dependency of its own', () => {
  expect(Object.keys(manifest).filter((name) => /^(optionalD|bundle[dD]?D|d)ependencies$/.test(name))).toEqual([]);
});

describe('the range of a peer', () => {
  // test/contract/transport-rabbitmq-amqplib-*.spec.ts and test/integration/rabbitmq-amqplib-*.spec.ts run on them.
  it('amqplib: begins, in each major, with what contract, codes and faults are tested on', () => {
    const tested = ['amqplib-0.10', 'amqplib-1.0'].map((name) => devDependencies[name]!.replace('npm:amqplib@', '^'));
    expect(peerDependencies['amqplib']!.split(' || ')).toEqual([...tested, '^2.0.0']);
  });
});
