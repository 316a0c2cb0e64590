import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { UNPRIVILEGED } from '../../../bench/support/own-server.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import type { DatabaseServer, Failover } from './database.js';

/** One of two servers of which one follows the other. */
export interface Twin extends DatabaseServer {
  /** The folder of its files. */
  readonly data: string;
  /** In good order, so that its files can be copied. */
  shutDown(): Promise<void>;
  /** Makes its files a copy of these; nobody uses either. */
  copyFrom(data: string): Promise<void>;
  /** Comes up as an asynchronous replica of the server at this port, of which its files are a copy. */
  follow(port: number): Promise<void>;
  /** Follows nobody any more, and takes writes. */
  promote(): Promise<void>;
  /** Of all that is committed. */
  position(): Promise<string>;
  /** Whether it has all up to there. */
  has(position: string): Promise<boolean>;
}
const CATCH_UP = 60_000;

/** In place of what is there. */
export async function copyFolder(from: string, to: string): Promise<void> {
  rmSync(to, { recursive: true, force: true, maxRetries: 5 });
  await promisify(execFile)('cp', ['-a', from, to], { cwd: dirname(to), ...UNPRIVILEGED });
}

/** A primary with an asynchronous replica that takes its place: clients find whoever is the primary at one address. */
export class Twins implements DatabaseServer, Failover {
  readonly failover = this;
  readonly version: string;

  private constructor(
    private primary: Twin,
    private replica: Twin,
    private readonly front: TcpProxy,
    private readonly link: TcpProxy,
  ) {
    this.version = primary.version;
  }

  /** @param replica has no files yet */
  static async open(primary: Twin, replica: Twin): Promise<Twins> {
    const front = await TcpProxy.start(addressOf(primary));
    const twins = new Twins(primary, replica, front, await TcpProxy.start(addressOf(primary)));
    await primary.shutDown();
    await replica.copyFrom(primary.data);
    await primary.start();
    await twins.follow();
    return twins;
  }

  async catchUp(): Promise<void> {
    const position = await this.primary.position();
    for (const deadline = performance.now() + CATCH_UP; !(await this.replica.has(position)); await pause(20))
      if (performance.now() > deadline) throw new Error(`The replica did not get to ${position}.`);
  }

  part(): void {
    this.link.set({ down: 'hold' });
  }

  async failOver(): Promise<void> {
    const { primary: former, replica: next, front, link } = this;
    await former.kill();
    link.cut();
    await next.shutDown();
    await former.copyFrom(next.data);
    await next.start();
    await next.promote();
    [this.primary, this.replica] = [next, former];
    for (const proxy of [front, link]) proxy.lead(addressOf(next));
    front.cut();
    link.heal();
  }

  follow(): Promise<void> {
    return this.replica.follow(this.link.port);
  }

  get port(): number {
    return this.front.port;
  }
  url(user: string, port = this.port): string {
    return this.primary.url(user, port);
  }
  query(sql: string): Promise<(string | null)[][]> {
    return this.primary.query(sql);
  }
  watchLeases(): Promise<void> {
    return this.primary.watchLeases();
  }
  kill(): Promise<void> {
    return this.primary.kill();
  }
  start(): Promise<void> {
    return this.primary.start();
  }
  readOnly(on: boolean): Promise<void> {
    return this.primary.readOnly(on);
  }
  holdSnapshot(on: boolean): Promise<void> {
    return this.primary.holdSnapshot(on);
  }
  get numbersBack(): DatabaseServer['numbersBack'] {
    return this.primary.numbersBack?.bind(this.primary);
  }
  emptyReady(): Promise<(string | null)[][]> {
    return this.primary.emptyReady();
  }
  get holdInserts(): DatabaseServer['holdInserts'] {
    return this.primary.holdInserts?.bind(this.primary);
  }
  leaseAhead(owner: string): Promise<void> {
    return this.primary.leaseAhead(owner);
  }
  terminate(user: string): Promise<void> {
    return this.primary.terminate(user);
  }
  async remove(): Promise<void> {
    await Promise.all([this.front.close(), this.link.close()]);
    await Promise.all([this.primary.remove(), this.replica.remove()]);
  }
}

function addressOf({ port }: Twin): string {
  return `127.0.0.1:${port}`;
}
