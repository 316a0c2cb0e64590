import type { DataSource } from 'typeorm';
import { tablesOf } from '../../../../lib/data-layers/typeorm/tables-of.js';
import type { ResolvedOptions } from '../../../../lib/outbox.options.js';
import type { Tables } from '../../../../lib/transaction/data-layer.js';

const areSame = (one: Tables, other: Tables): boolean => one.server === other.server && one.names === other.names;

interface Given {
  readonly schema?: string;
  readonly prefix?: string;
  readonly store?: unknown;
  /** What the server said. */
  readonly said?: { readonly database?: string; readonly schema?: string };
}
/** @param options of a DataSource that is connected */
function tables(options: object, { schema, prefix = 'outbox_', store, said }: Given = {}) {
  const dataSource = { options, driver: { database: 'shop', schema: 'public', ...said } };
  const resolved = { database: { schema, prefix }, store };
  return tablesOf(dataSource as unknown as DataSource, resolved as unknown as ResolvedOptions);
}
const PG = { type: 'postgres', host: 'db.example', port: 5432, database: 'shop' };
const MY = { type: 'mysql', host: 'db.example', port: 3306, database: 'shop' };

describe('the tables of an outbox', () => {
  it.each([
    ['written twice', PG, { ...PG }],
    ['by a URL', PG, { type: 'postgres', url: 'postgres://user:p%40ss@db.example:5432/shop?sslmode=require' }],
    ['by a URL without the port', PG, { type: 'postgres', url: 'postgresql://other@db.example/shop' }],
    ['by a URL that overrules the rest', PG, { ...PG, host: 'elsewhere', port: 1, url: 'postgres://db.example/shop' }],
    ['in capitals', PG, { ...PG, host: 'DB.Example' }],
    ['without the port', PG, { ...PG, port: undefined }],
    ['with another user, pool and password', PG, { ...PG, username: 'x', password: () => 'y', poolSize: 1 }],
    ['as the master of a replication', PG, { type: 'postgres', replication: { master: PG, slaves: [{ host: 'x' }] } }],
    ['through the loopback', { ...PG, host: 'localhost' }, { type: 'postgres', url: 'postgres://127.0.0.1/shop' }],
    ['through the loopback of IPv6', { ...PG, host: '::1' }, { type: 'postgres', url: 'postgres://[::1]:5432/shop' }],
    ['at a socket', { ...PG, host: '/run/pg' }, { type: 'postgres', url: 'postgres://u@x/shop?host=/run/pg' }],
    ['at the default of the driver', { ...PG, host: undefined }, { type: 'postgres', database: 'shop' }],
    ['with the other driver of MySQL', MY, { type: 'mariadb', url: 'mysql://u@db.example/shop' }],
    ['at a socket of MySQL', { ...MY, socketPath: '/run/my' }, { type: 'mysql', socketPath: '/run/my' }],
  ])('are the same %s', (_how, one, other) => {
    expect(areSame(tables(one), tables(other))).toBe(true);
  });

  it('are the same where a schema is named and where it is the connection’s', () => {
    expect(areSame(tables(PG), tables(PG, { schema: 'public' }))).toBe(true);
    expect(areSame(tables(PG, { said: { schema: 'orders' } }), tables(PG, { schema: 'orders' }))).toBe(true);
    expect(areSame(tables(MY), tables(MY, { schema: 'shop', said: { database: 'another' } }))).toBe(true);
  });

  it.each([
    ['host', PG, { ...PG, host: 'db2.example' }, {}],
    ['port', PG, { ...PG, port: 5433 }, {}],
    ['port in the URL', PG, { type: 'postgres', url: 'postgres://db.example:5433/shop' }, {}],
    ['master', PG, { type: 'postgres', replication: { master: { ...PG, host: 'x' }, slaves: [PG] } }, {}],
    ['database', PG, PG, { said: { database: 'shop2' } }],
    ['schema', PG, PG, { schema: 'outbox' }],
    ['schema of the connection', PG, PG, { said: { schema: 'orders' } }],
    ['prefix', PG, PG, { prefix: 'audit_' }],
    ['database on MySQL', MY, MY, { said: { database: 'shop2' } }],
    ['socket', { ...MY, socketPath: '/run/my' }, { ...MY, socketPath: '/run/my2' }, {}],
    ['kind of database', { ...PG, port: 1 }, { ...MY, port: 1 }, {}],
  ])('are others with another %s', (_what, one, other, given) => {
    expect(areSame(tables(one), tables(other, given))).toBe(false);
  });

  it.each([
    ['a driver of the application, such as an embedded database', { type: 'postgres', driver: {} }],
    ['a stream of the application', { type: 'postgres', database: 'shop', extra: { stream: () => ({}) } }],
    ['a client of the application', { ...PG, extra: { Client: class {} } }],
    ['a host that overrules the others', { ...PG, extra: { host: 'db.example' } }],
    ['a URL that only the driver can read', { type: 'postgres', url: '/run/postgresql shop' }],
    ['a URL without a host', { type: 'postgres', url: 'postgres:///shop' }],
  ])('are those of the DataSource alone with %s', (_what, options) => {
    expect(areSame(tables(options), tables(options))).toBe(false);
    const { server } = tables(options);
    expect(server).toMatchObject({ options });
  });

  it('are those of the DataSource alone in a store of one’s own, whatever the database', () => {
    const store = () => undefined;
    expect(areSame(tables({ type: 'sqljs' }, { store }), tables({ type: 'sqljs' }, { store }))).toBe(false);
  });
});
