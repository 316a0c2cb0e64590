import type { Finding } from '../../lib/index.js';
import { canStart } from '../support/own-database.js';
import { PrometheusServer } from '../support/prometheus.js';
import { RabbitMqNode } from '../support/rabbitmq-node.js';
import { describeUnlessMissing, type Program, type Service } from '../support/services.js';
import { mountSmallDisk } from '../support/small-disk.js';
import { until, untilDone } from '../support/until.js';
import { CASES, repairOf, type DrillCase } from './drill/cases.js';
import { runbookOf } from './drill/runbook.js';
import { System } from './drill/system.js';

/** Milliseconds: until the alert, until a fact is there that the database is told now and then, and until a message is through. */
const NEVER = 120_000;

const disk = mountSmallDisk(256);
const missing: (Service | Program)[] = [
  ...(canStart.postgres ? [] : (['postgres'] as const)),
  ...(RabbitMqNode.isInstalled ? [] : (['rabbitmq'] as const)),
  ...(PrometheusServer.isInstalled ? [] : (['prometheus'] as const)),
  ...(disk === undefined ? (['mount'] as const) : []),
];

describeUnlessMissing(
  missing,
  'the drill: from an alert to a healthy system, by what the alert, the doctor and the runbook say',
  () => {
    let system: System;
    const times: Times[] = [];
    beforeAll(async () => {
      if (disk === undefined) throw new Error('This machine mounts nothing.');
      system = await System.start(disk);
      for (const { prepare } of CASES) await prepare?.(system);
      await system.healthy();
    });
    afterAll(async () => {
      await system?.stop();
      disk?.remove();
      process.stderr.write(tableOf(times));
    });

    const fires = async ({ alert, reason }: DrillCase): Promise<boolean> =>
      (await system.firing()).some(
        ({ name, labels }) => name === alert && (reason === undefined || reason.test(labels['reason'] ?? '')),
      );

    /** What only a relay knows at first, it writes down a little later. */
    async function explain({ explain: pattern }: DrillCase, id: string | undefined): Promise<string> {
      let said = '';
      if (pattern === undefined) return said;
      const names = async (): Promise<boolean> => {
        const { stdout, stderr } = await system.run(`explain ${id}`);
        said = `${stdout}${stderr}`;
        return pattern.test(said);
      };
      await until(names, NEVER).catch(() => expect(said).toMatch(pattern));
      return said;
    }

    /** A busy machine may not have opened it, nor a busy database counted for it, in time. */
    function diagnose({ doctor: { code, says, options } }: DrillCase): Promise<Finding> {
      return untilDone(async () => {
        const findings = await system.diagnose(options?.(system) ?? '');
        const finding = findings.find((each) => code.test(each.code) && says.test(each.text));
        if (finding === undefined) throw new Error(`The doctor does not name it: ${JSON.stringify(findings)}`);
        return finding;
      });
    }

    async function drill(one: DrillCase): Promise<void> {
      const broken = performance.now();
      const id = await one.break(system);
      await until(() => fires(one), NEVER, 200);
      const alarmed = performance.now();
      const [finding, explained] = await Promise.all([diagnose(one), explain(one, id)]);
      await one.repair(system, { fix: repairOf(finding), page: runbookOf(one.alert), explained, id: id ?? '' });
      const repaired = performance.now();
      await system.healthy();
      if (id !== undefined) await until(() => system.arrived.has(id), NEVER);
      const well = performance.now();
      times.push({ name: one.name, times: [alarmed - broken, repaired - alarmed, well - repaired, well - alarmed] });
    }

    let leftBroken: string | undefined;
    async function drillUnlessBroken(one: DrillCase): Promise<void> {
      if (leftBroken !== undefined) throw new Error(`The system is as '${leftBroken}' left it.`);
      leftBroken = one.name;
      await drill(one);
      leftBroken = undefined;
    }

    it.each(CASES)('$name', drillUnlessBroken, 900_000);
  },
);

interface Times {
  readonly name: string;
  /** Milliseconds, by column. */
  readonly times: readonly number[];
}

function tableOf(rows: readonly Times[]): string {
  const head = ['seconds'.padEnd(15), 'to the alert', 'repair', 'recovery', 'from alert to health'];
  const line = ({ name, times }: Times): string =>
    [name.padEnd(15), ...times.map((ms, n) => (ms / 1_000).toFixed(1).padStart((head[n + 1] as string).length))].join(
      '  ',
    );
  return [head.join('  '), ...rows.map(line), ''].join('\n');
}
