import type { OutboxStore } from '../../lib/index.js';

export const ROLES = ['writer', 'leases', 'ready', 'parked', 'rowLocks', 'admin', 'cleaner', 'setup'] as const;

/** The store, with something put in front of each of its roles. */
export function eachRole(store: OutboxStore, around: <T extends object>(role: T) => T): OutboxStore {
  const roles: object = Object.fromEntries(ROLES.map((role) => [role, around(store[role])]));
  return replaced(store, roles);
}

/** It, with some of its members replaced. */
export function replaced<T extends object>(whole: T, own: object): T {
  return new Proxy(whole, {
    get(target, name) {
      const value: unknown = Reflect.get(own, name) ?? Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(Reflect.has(own, name) ? own : target) as unknown) : value;
    },
  });
}
