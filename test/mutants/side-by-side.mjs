/** At most `size` of what judges runs at once. In the order of asking: who needs all of it is not passed by those who need little. */
export class Slots {
  waiting = [];

  constructor(size) {
    this.size = size;
    this.free = size;
  }

  /** @param alone takes all slots: nothing else runs beside it */
  async hold(alone, work) {
    const count = alone ? this.size : 1;
    await new Promise((admitted) => {
      this.waiting.push({ count, admitted });
      this.admit();
    });
    try {
      return await work();
    } finally {
      this.free += count;
      this.admit();
    }
  }

  admit() {
    while (this.waiting.length > 0 && this.waiting[0].count <= this.free) {
      const { count, admitted } = this.waiting.shift();
      this.free -= count;
      admitted();
    }
  }
}

/** At most `jobs` at once. @returns what each came to, in the order of the items */
export async function sideBySide(items, jobs, work) {
  const results = [];
  const rest = [...items.entries()];
  async function worker() {
    for (let next = rest.shift(); next !== undefined; next = rest.shift()) results[next[0]] = await work(next[1]);
  }
  await Promise.all(Array.from({ length: jobs }, worker));
  return results;
}
