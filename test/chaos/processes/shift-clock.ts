const RealDate = Date;
let shift = 0;

/** A wall clock that is wrong, as an operator or a bad time server makes it. The monotonic clock is not touched. */
class ShiftedDate extends RealDate {
  constructor(...given: unknown[]) {
    if (given.length === 0) super(RealDate.now() + shift);
    else super(...(given as []));
  }
  static override now(): number {
    return RealDate.now() + shift;
  }
}

/** From now on every `Date` of this process is wrong by so many milliseconds; 0 puts it right. */
export function shiftClock(ms: number): void {
  shift = ms;
  globalThis.Date = ms === 0 ? RealDate : (ShiftedDate as DateConstructor);
}
