import { SERVICES } from '../../tools/services/all.mjs';
import { provide } from '../../tools/services/provide.mjs';

/** What the contracts run on: a test that is skipped convicts nobody. */
export class Services {
  started = [];

  async bringUp() {
    for (const service of SERVICES) {
      const { url, missing, stop } = await provide(service);
      if (url === undefined) throw new Error(`There is no ${service.name}: ${missing.join('; ')}`);
      process.env[service.variable] = url;
      this.started.push({ service, url, stop });
    }
    process.env['OUTBOX_TEST_REQUIRE'] = 'all';
  }

  /** @returns names of those that do not answer: what failed meanwhile may be theirs */
  async gone() {
    const probes = await Promise.allSettled(this.started.map(({ service, url }) => service.probe(url)));
    return this.started.filter((_, i) => probes[i].status === 'rejected').map(({ service }) => service.name);
  }

  async stop() {
    for (const { stop } of this.started.splice(0)) await stop();
  }
}
