/** A broker of our own with what the relays publish to, and what can be done to it. */
export interface BrokerServer {
  readonly port: number;
  readonly url: string;
  readonly version: string;
  /** How relays and writers are told to reach it on this port, which a proxy's may be. */
  urlThrough(port: number): string;
  /** SIGKILL: nothing flushed, no goodbye. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** It is there and takes nothing, until it is told to go on. */
  stall(on: boolean): Promise<void>;
  /** Closes every connection by itself, if it can. */
  closeConnections?(): Promise<void>;
  /**
   * Nothing takes what goes to the seasonal topic of this transport, until it is put back. What it took is not lost: what goes
   * away with the topic goes when it is read out.
   */
  withdraw(transport: string, whenReadOut: WhenReadOut): Promise<void>;
  /** The transport has no exchange any more, if it has such, until it is put back. */
  dropExchange?(transport: string): Promise<void>;
  putBack(transport: string): Promise<void>;
  remove(): Promise<void>;
}

/** Does it when the consumer has read all of the topic, has left it, and nobody writes; or not at all. */
export type WhenReadOut = (remove: () => Promise<void>) => Promise<void>;
