import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { DeadOwners } from '../../../../lib/relay/leases/dead-owners.js';
import { hostProcesses, type HostSystem } from '../../../../lib/relay/leases/host-process.js';
import type { HeldLease } from '../../../../lib/store/lease-store.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { until } from '../../../support/until.js';

/** A machine with a `/proc`, as the process with `pid` sees it. */
class Machine implements HostSystem {
  hostname = 'laptop';
  readonly denied = new Set<number>();
  readonly links = new Map([
    ['/proc/self/ns/pid', 'pid:[1]'],
    ['/proc/self/ns/time', 'time:[1]'],
  ]);
  readonly files = new Map([['/proc/sys/kernel/random/boot_id', 'boot 1\n']]);

  constructor(readonly pid = 10) {
    this.runs(10, 500).runs(7, 400);
  }
  runs(pid: number, start: number, { state = 'S', threads = 11 } = {}): this {
    // The fields of `man 5 proc` behind the command, which has whatever characters.
    const fields = Array.from({ length: 49 }, (_, index) => (index === 17 ? threads : index === 19 ? start : index));
    return this.says(pid, `${pid} (node) S 1 (x) ${[state, ...fields.slice(1)].join(' ')}\n`);
  }
  says(pid: number, text: string): this {
    for (const name of pid === this.pid ? [pid, 'self'] : [pid]) this.files.set(`/proc/${name}/stat`, text);
    return this;
  }
  ends(pid: number): this {
    this.files.delete(`/proc/${pid}/stat`);
    return this;
  }
  async read(path: string): Promise<string> {
    return found(this.files.get(path));
  }
  async readLink(path: string): Promise<string> {
    return found(this.links.get(path));
  }
  ask(pid: number): void {
    if (this.denied.has(pid)) throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' });
    if (!this.files.has(`/proc/${pid}/stat`)) throw Object.assign(new Error('kill ESRCH'), { code: 'ESRCH' });
  }
}
function found(text: string | undefined): string {
  if (text === undefined) throw Object.assign(new Error('ENOENT'), { code: 'ENOENT' });
  return text;
}

describe('whether a process of this machine has ended', () => {
  const machine = (): Machine => new Machine();
  /** What the process 7 tells of itself on a machine like this one. */
  const told = async (change: (there: Machine) => unknown = () => undefined): Promise<string> => {
    const there = new Machine(7);
    change(there);
    return (await hostProcesses(there)).life ?? 'nothing';
  };
  let seven = '';
  beforeAll(async () => (seven = await told()));
  const isGone = async (there: Machine, life = seven): Promise<boolean> => (await hostProcesses(there)).isGone(life);

  it.each([
    ['it is there', (there: Machine) => there, false],
    ['there is none with its pid', (there: Machine) => there.ends(7), true],
    ['its pid is a later one’s', (there: Machine) => there.ends(7).runs(7, 401), true],
    ['it is stopped', (there: Machine) => there.runs(7, 400, { state: 'T' }), false],
    ['it is a zombie', (there: Machine) => there.runs(7, 400, { state: 'Z', threads: 1 }), true],
    ['its first thread is a zombie', (there: Machine) => there.runs(7, 400, { state: 'Z', threads: 2 }), false],
  ])('S5: %s', async (_, change, gone) => {
    expect(await isGone(change(machine()))).toBe(gone);
  });

  it('S5: it may not be seen: no word of it, or another user’s', async () => {
    const hidden = machine();
    hidden.denied.add(7);
    expect(await isGone(hidden)).toBe(false);
    expect(await isGone(hidden.ends(7))).toBe(false);
    const unread = machine();
    unread.ask = () => undefined;
    expect(await isGone(unread.ends(7))).toBe(false);
  });

  it.each([
    ['boot', (there: Machine) => there.files.set('/proc/sys/kernel/random/boot_id', 'boot 2\n')],
    ['pid namespace', (there: Machine) => there.links.set('/proc/self/ns/pid', 'pid:[2]')],
    ['time namespace', (there: Machine) => there.links.set('/proc/self/ns/time', 'time:[2]')],
    ['hostname', (there: Machine) => (there.hostname = 'server')],
  ])('S5: nothing is known of a process of another %s', async (_, change) => {
    const there = machine().ends(7);
    change(there);
    expect(await isGone(there)).toBe(false);
    expect(await isGone(there, await told(change))).toBe(true);
  });

  it.each([
    ['no /proc', (there: Machine) => there.files.clear()],
    ['no namespaces', (there: Machine) => there.links.clear()],
    [
      'the /proc of another namespace',
      (there: Machine) => there.files.set('/proc/self/stat', there.files.get('/proc/7/stat') ?? ''),
    ],
    ['a /proc that says something else', (there: Machine) => there.files.set('/proc/self/stat', 'what')],
  ])('S5: nothing is known with %s', async (_, change) => {
    const there = machine();
    change(there);
    const processes = await hostProcesses(there);
    expect(processes.life).toBeUndefined();
    there.ends(7);
    expect(await processes.isGone(seven)).toBe(false);
  });

  it('S5: time namespaces are as one where the kernel has none', async () => {
    const before = (there: Machine): unknown => there.links.delete('/proc/self/ns/time');
    const old = machine();
    before(old);
    expect(await isGone(old, await told(before))).toBe(false);
    expect(await isGone(old.ends(7), await told(before))).toBe(true);
    expect(await isGone(old)).toBe(false);
  });

  it.each(['x.y.z', '$.0.400', '$.-7.400', '$.7.400.', '$.7', '$'])('S5: %j is no process', async (text) => {
    expect(await isGone(machine().ends(7), text.replace('$', seven.slice(0, 16)))).toBe(false);
  });

  // Elsewhere there is no /proc, and nothing of this to see.
  const onLinux = existsSync('/proc/self/ns/pid') ? it : it.skip;
  onLinux('S4: of this machine: itself, a child, one that ended, one that nobody buried', async () => {
    const processes = await hostProcesses();
    expect(processes.life).toMatch(/^[0-9a-f]{16}\.\d+\.\d+$/);
    expect(await processes.isGone(processes.life as string)).toBe(false);
    const [host] = (processes.life as string).split('.');
    const startOf = (pid: number): string =>
      readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ')[19] ?? '';
    const child = spawn('sleep', ['600']);
    const life = `${host}.${child.pid}.${startOf(child.pid as number)}`;
    expect(await processes.isGone(life)).toBe(false);
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    expect(await processes.isGone(life)).toBe(true);
    const parent = spawn('sh', ['-c', 'sleep 600 & echo $!; exec sleep 600'], { stdio: ['ignore', 'pipe', 'inherit'] });
    const over = once(parent, 'exit');
    try {
      const [line] = (await once(parent.stdout, 'data')) as [Buffer];
      const orphan = `${host}.${Number(line)}.${startOf(Number(line))}`;
      expect(await processes.isGone(orphan)).toBe(false);
      // As `sleep` it buries nobody; as a shell it might.
      await until(() => readFileSync(`/proc/${parent.pid}/comm`, 'latin1') === 'sleep\n');
      process.kill(Number(line), 'SIGKILL');
      await until(() => readFileSync(`/proc/${Number(line)}/stat`, 'latin1').includes(') Z '));
      expect(await processes.isGone(orphan)).toBe(true);
    } finally {
      parent.kill('SIGKILL');
      await over;
    }
  });
});

describe('owners whose process has ended', () => {
  const held = (owner: string, bucket: number): HeldLease => ({
    ...{ owner, bucket, transport: 0, epoch: '1', remaining: 30_000, until: 'later' },
  });
  const instance = (owner: string, life = owner) => ({
    owner,
    transports: [0],
    info: `host pid 1 lease 1ms life ${life}`,
  });

  it('S4: leases end a second after that is known, not earlier, and the last of its row goes with the last of them', async () => {
    const clock = new FakeClock();
    let leases = [held('a', 1), held('a', 2), held('b', 3)];
    let writtenUnder = 2;
    const left: string[] = [];
    const store = {
      heldLeases: async () => leases,
      endLeases: async (asked: readonly HeldLease[]) => {
        const ended = asked.filter(({ bucket }) => bucket !== writtenUnder);
        leases = leases.filter((lease) => !ended.includes(lease));
        return ended;
      },
      leave: async (owner: string) => void left.push(owner),
    };
    const dead = new DeadOwners(store, clock, 'me', { life: undefined, isGone: async (life) => life === 'a' });
    const instances = [instance('a'), instance('b'), instance('me', 'a')];
    expect(dead.endsIn).toBe(Infinity);
    expect(await dead.end(instances)).toEqual({ living: instances, ended: [] });
    expect(dead.endsIn).toBe(1_000);
    await clock.advance(999);
    expect((await dead.end(instances)).ended).toEqual([]);
    expect(dead.endsIn).toBe(1);
    await clock.advance(1);
    expect(await dead.end(instances)).toEqual({ living: instances, ended: [held('a', 1)] });
    expect([dead.endsIn, left]).toEqual([Infinity, []]);
    writtenUnder = 0;
    expect(await dead.end(instances)).toEqual({ living: instances.slice(1), ended: [held('a', 2)] });
    expect([leases, left]).toEqual([[held('b', 3)], ['a']]);
  });

  it('S5: a machine that does not answer keeps nobody from renewing, and is not asked again meanwhile', async () => {
    const clock = new FakeClock();
    let asked = 0;
    const isGone = (): Promise<boolean> => new Promise(() => (asked += 1));
    const store = { heldLeases: async () => [held('a', 1)], endLeases: async () => [], leave: async () => undefined };
    const dead = new DeadOwners(store, clock, 'me', { life: undefined, isGone });
    const instances = [instance('a')];
    const first = dead.end(instances);
    await clock.advance(500);
    expect(await first).toEqual({ living: instances, ended: [] });
    expect(await dead.end(instances)).toEqual({ living: instances, ended: [] });
    expect([asked, dead.endsIn]).toEqual([1, Infinity]);
  });
});
