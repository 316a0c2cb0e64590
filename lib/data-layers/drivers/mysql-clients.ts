import { OutboxConfigurationError } from '../../outbox.errors.js';
import { StoreClosed } from '../../store/executor.js';
import type { StoreSettings } from '../../store/names.js';
import { systemClock } from '../../time/clock.js';
import type { MysqlClient } from './mysql-connection.js';
import { lost } from './own-connection.js';

/** How much longer than the server's statement timeout the client waits before it drops the connection. */
export const CLIENT_GRACE = 2_000;

/** How an application reaches MySQL or MariaDB: what mysql2 makes connections of. */
export interface MysqlSource {
  /** Of the package mysql2. */
  createConnection(options: object): MysqlClient & { connect(done: (error: Error | null) => void): void };
  readonly options: object;
}

/** Connections of the relay's own. */
export class MysqlClients {
  closed = false;

  constructor(
    readonly source: MysqlSource | Promise<MysqlSource>,
    readonly settings: Pick<StoreSettings, 'connectTimeout'>,
  ) {}

  async take(): Promise<MysqlClient> {
    const { connectTimeout } = this.settings;
    const { createConnection, options } = await this.source;
    if (this.closed) throw new StoreClosed();
    const client = createConnection({ ...options, ...OURS, connectTimeout });
    client.on('error', () => undefined); // the statement in hand fails by itself; without one nobody is interested
    if (!('execute' in client)) {
      client.destroy();
      throw refusal();
    }
    await new Promise<void>((resolve, reject) => {
      // The driver's own limit ends with the server's first packet.
      const cancel = systemClock.after(connectTimeout + CLIENT_GRACE, () => {
        client.destroy();
        reject(lost());
      });
      client.connect((error) => {
        cancel();
        if (error === null || error === undefined) return resolve();
        client.destroy();
        reject(error);
      });
    });
    return client;
  }
}

/** The application's options that would change what we read or send are overruled one by one. */
const OURS = {
  charset: 'utf8mb4',
  timezone: 'Z',
  supportBigNumbers: true,
  bigNumberStrings: true,
  dateStrings: true,
  decimalNumbers: false,
  typeCast: true,
  ...{ rowsAsArray: false, nestTables: false, namedPlaceholders: false, multipleStatements: false },
  queryFormat: undefined,
  flags: ['FOUND_ROWS'], // "affected" counts rows that matched, also when nothing changed in them
  enableKeepAlive: true,
};

const refusal = (): OutboxConfigurationError =>
  new OutboxConfigurationError('MISSING_PEER', 'The application does not use the driver mysql2.', {
    hint: 'Run `npm install mysql2`.',
  });
