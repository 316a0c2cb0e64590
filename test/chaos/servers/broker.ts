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
  remove(): Promise<void>;
}
