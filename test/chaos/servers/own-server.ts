/** A server of the harness. Faults kill and start it while the harness may be taken down: after `remove` it never comes up again. */
export abstract class OwnServer {
  private removed = false;
  private starting: Promise<void> = Promise.resolve();

  /** Resolves when it answers. */
  start(): Promise<void> {
    if (this.removed) return Promise.reject(new Error('This server was removed.'));
    return (this.starting = this.bringUp());
  }

  async remove(): Promise<void> {
    this.removed = true;
    await this.starting.catch(() => undefined);
    await this.kill();
    await this.clear();
  }

  /** At once: nothing flushed, no goodbye. */
  abstract kill(): Promise<void>;
  protected abstract bringUp(): Promise<void>;
  /** Deletes what is left of it. */
  protected abstract clear(): Promise<void> | void;
}
