import { type FileHandle, open } from 'node:fs/promises';
import type { Received, Reader } from './received.js';

/** Follows the file that the warehouse writes. */
export class LedgerReader implements Reader {
  readonly received: Received[] = [];
  private rest = '';
  private readonly timer = setInterval(() => void (this.reading = this.reading.then(() => this.readOn())), 50);
  private reading: Promise<void> = Promise.resolve();

  private constructor(private readonly file: FileHandle) {}

  static async start(path: string): Promise<LedgerReader> {
    return new LedgerReader(await open(path, 'a+'));
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.reading;
    await this.readOn();
    await this.file.close();
  }

  private async readOn(): Promise<void> {
    const chunk = Buffer.alloc(64 * 1024);
    for (;;) {
      const { bytesRead } = await this.file.read(chunk, 0, chunk.length, this.offset);
      if (bytesRead === 0) return;
      this.offset += bytesRead;
      const lines = (this.rest + chunk.toString('latin1', 0, bytesRead)).split('\n');
      this.rest = lines.pop()!;
      for (const line of lines) this.received.push(JSON.parse(Buffer.from(line, 'latin1').toString()) as Received);
    }
  }
  private offset = 0;
}
