/** A pool of connections to one server, as kafkajs makes them. */
interface Addressed {
  readonly host: string;
  readonly port: number;
}

/**
 * Which of the servers that an application names answered nothing when they were asked last. Each producer of kafkajs begins with
 * the first of them, and its time may be over before one that is silent is left.
 */
export class Seeds {
  private readonly silent = new Set<string>();

  note(server: string): void {
    this.silent.add(server);
  }

  answered(server: string): void {
    this.silent.delete(server);
  }

  /** For one producer: it asks those that were silent when all others are through. */
  inOrder<Pool extends Addressed>(next: () => Promise<Pool>): () => Promise<Pool> {
    const skipped = new Set<string>();
    return async () => {
      for (;;) {
        const pool = await next();
        const server = `${pool.host}:${pool.port}`;
        if (!this.silent.has(server)) return pool;
        if (skipped.has(server)) {
          skipped.clear();
          this.silent.clear(); // its turn; and of several the next producer asks another one
          return pool;
        }
        skipped.add(server);
      }
    };
  }
}
