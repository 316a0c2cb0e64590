import type { CliCommand } from './command.js';
import { AUDIT } from './commands/audit.js';
import { BENCH } from './commands/bench.js';
import { BREAK_LEASES } from './commands/break-leases.js';
import { BUCKETS } from './commands/buckets.js';
import { CANCEL, DISCARD, REQUEUE } from './commands/change.js';
import { CLEAN } from './commands/clean.js';
import { COMPLETION } from './commands/completion.js';
import { DEAD } from './commands/dead.js';
import { DOCTOR } from './commands/doctor.js';
import { DRAIN } from './commands/drain.js';
import { EDIT } from './commands/edit.js';
import { EXPLAIN } from './commands/explain.js';
import { INIT } from './commands/init.js';
import { LIST } from './commands/list.js';
import { MIGRATE } from './commands/migrate.js';
import { PARTITIONS } from './commands/partitions.js';
import { PAUSE, PAUSES, RESUME } from './commands/pause.js';
import { PURGE } from './commands/purge.js';
import { RELEASE } from './commands/release.js';
import { REPLAY } from './commands/replay.js';
import { SHOW } from './commands/show.js';
import { STATUS } from './commands/status.js';

/** All commands, in the order of the help. A new one is a line here. */
export const COMMANDS: readonly CliCommand[] = [
  INIT,
  MIGRATE,
  STATUS,
  DOCTOR,
  LIST,
  SHOW,
  EXPLAIN,
  DEAD,
  BUCKETS,
  AUDIT,
  REQUEUE,
  DISCARD,
  CANCEL,
  EDIT,
  RELEASE,
  PAUSE,
  RESUME,
  PAUSES,
  REPLAY,
  DRAIN,
  BREAK_LEASES,
  CLEAN,
  PARTITIONS,
  BENCH,
  PURGE,
  COMPLETION,
];
