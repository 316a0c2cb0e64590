import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describeOnEach, describeWith, type Service } from '../../support/services.js';

/** What becomes of tests that need these services, on a machine where none of them is. */
function declared(need: readonly Service[], required: string | undefined): string[] {
  const variables = Object.keys(process.env).filter((name) => /^OUTBOX_TEST_.*_(URL|BROKERS)$/.test(name));
  const { env } = process;
  const told: string[] = [];
  const run = (name: string): void => void told.push(`run: ${name}`);
  const skip = (name: string): void => void told.push(`skip: ${name}`);
  const own = { describe: globalThis.describe, env };
  process.env = { ...env, OUTBOX_TEST_REQUIRE: required };
  if (required === undefined) delete process.env['OUTBOX_TEST_REQUIRE'];
  for (const name of variables) delete process.env[name];
  globalThis.describe = Object.assign(run, { skip }) as never;
  try {
    describeWith(need, 'some', () => undefined);
    describeOnEach([], 'each', () => undefined);
  } finally {
    Object.assign(globalThis, { describe: own.describe });
    process.env = own.env;
  }
  return told;
}

describe('tests that need a server', () => {
  it('are skipped where it is missing, and say so', () => {
    expect(declared(['postgres', 'kafka'], undefined)).toEqual([
      'skip: some (no postgres, kafka)',
      'skip: each, on postgres (no postgres)',
      'skip: each, on mariadb (no mariadb)',
      'skip: each, on mysql (no mysql)',
    ]);
  });

  it('run where it is required, and fail: none of them is skipped', () => {
    expect(declared(['kafka'], 'all')).toEqual([
      'run: some',
      'run: each, on postgres',
      'run: each, on mariadb',
      'run: each, on mysql',
    ]);
    expect(declared(['postgres', 'kafka'], 'kafka,mariadb')).toEqual([
      'run: some',
      'skip: each, on postgres (no postgres)',
      'run: each, on mariadb',
      'skip: each, on mysql (no mysql)',
    ]);
  });

  it('are all required by the gate', () => {
    expect(readFileSync(join(process.cwd(), '.ci', 'run'), 'utf8')).toMatch(/^ *export OUTBOX_TEST_REQUIRE=all /m);
  });
});

describe('servers in Docker', () => {
  it('are reached from this machine alone, on every Node that the package runs on', async () => {
    const { GenericContainer } = await import('testcontainers'); // 12.0.2 and later do not load on Node 20
    const { onLoopback } = (await import('../../../tools/services/containers.mjs' as string)) as {
      onLoopback: (of: typeof GenericContainer) => typeof GenericContainer;
    };
    const container = new (onLoopback(GenericContainer))('some').withExposedPorts(5432, {
      container: 9092,
      host: 9999,
    });
    expect(container).toMatchObject({
      hostConfig: {
        PortBindings: {
          '5432/tcp': [{ HostIp: '127.0.0.1', HostPort: '0' }],
          '9092/tcp': [{ HostIp: '127.0.0.1', HostPort: '9999' }],
        },
      },
    });
  });
});
