import { ClientProxy } from '@nestjs/microservices';

/** A client of the application's own: takes everything, confirms nothing. */
export class OwnClient extends ClientProxy {
  readonly packets: unknown[] = [];

  connect(): Promise<void> {
    return Promise.resolve();
  }
  close(): void {}
  unwrap<T>(): T {
    throw new Error('nothing to unwrap');
  }
  protected publish(): () => void {
    return () => undefined;
  }
  protected dispatchEvent<T>(packet: unknown): Promise<T> {
    this.packets.push(packet);
    return Promise.resolve(undefined as T);
  }
}
