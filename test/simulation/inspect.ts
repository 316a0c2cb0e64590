import { compareSeq } from '../../lib/message.js';
import { LaneLoops } from '../../lib/dispatch/lane-loops.js';
import { SnapshotFloor } from '../../lib/claim/snapshot-floor.js';
import type { ResolvedOptions } from '../../lib/outbox.options.js';
import type { Relay } from './fleet.js';
import type { History } from './history.js';
import type { MemoryDatabase } from './store/memory-database.js';

/** That come on top: under a backlog that fills the room, retries would never find any. */
const RETRIES = 100;

/** Looks into a relay whenever it reads: invariants 8 and 17. */
export function inspect(
  { dispatcher, process }: Relay,
  database: MemoryDatabase,
  history: History,
  options: ResolvedOptions,
): void {
  for (const each of dispatcher.lanes) {
    if (!(each instanceof LaneLoops)) continue;
    const { claimer, room, handOver } = each.lane;
    const tell = (number: number, what: string): void => history.violated(number, `${process.name}: ${what}`);
    for (const { rows, reserved } of database.open) {
      for (const { seq, bucket } of rows) {
        const floor = claimer.floor.floorOf(bucket);
        if (compareSeq(seq, floor) <= 0 && claimer.heads.has(bucket))
          tell(8, `${seq} can still commit, the floor is ${floor}`);
      }
      for (const seq of reserved) {
        for (const bucket of claimer.heads.keys()) {
          const floor = claimer.floor.floorOf(bucket);
          if (compareSeq(seq, floor) <= 0) tell(8, `${seq} is not even inserted, the floor is ${floor}`);
        }
      }
    }
    const { batchSize, batchesInFlight } = options;
    const most = batchSize * (batchesInFlight + 2) + RETRIES;
    if (room.held > most || room.held < 0) tell(17, `holds ${room.held} messages of at most ${most}`);
    if (handOver.messagesInFlight > batchSize * batchesInFlight) tell(17, `${handOver.messagesInFlight} are in flight`);
    if (claimer.floor instanceof SnapshotFloor && claimer.floor.checkpoints.length > 64)
      tell(17, `${claimer.floor.checkpoints.length} checkpoints`);
  }
}
