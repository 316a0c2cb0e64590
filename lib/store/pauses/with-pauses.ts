/** Questions after which one that was answered without pauses is asked with them again. */
const AGAIN = 30;

/**
 * Tables of version 2 have no pauses, and a relay works on them with `database.setup: 'none'`: it asks without them, and now and
 * then whether they are there.
 */
export class WithPauses {
  /** Questions that are asked without pauses still. @internal */
  without = 0;

  constructor(readonly isMissingTable: (error: unknown) => boolean) {}

  async ask<T>(whole: () => Promise<T>, old: () => Promise<T>): Promise<T> {
    if (this.without > 0) {
      this.without -= 1;
      return old();
    }
    try {
      return await whole();
    } catch (error) {
      if (!this.isMissingTable(error)) throw error;
      const answer = await old(); // throws where it is another table that is missing
      this.without = AGAIN;
      return answer;
    }
  }
}
