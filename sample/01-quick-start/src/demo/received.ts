/** One message as an independent reader found it. */
export interface Received {
  readonly id: string;
  readonly key: string | null;
  readonly type: string;
  readonly payload: {
    readonly orderId: string;
    readonly customer: string;
    readonly number: number;
    readonly total: number;
  };
}

/** Reads what arrived, knowing nothing of the outbox. */
export interface Reader {
  /** In order of arrival. */
  readonly received: readonly Received[];
  stop(): Promise<void>;
}
