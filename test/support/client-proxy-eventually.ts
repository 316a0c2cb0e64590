/** Resolves once the condition holds; rejects at the deadline. */
export async function eventually(condition: () => boolean | Promise<boolean>, deadline = 20_000): Promise<void> {
  const until = performance.now() + deadline;
  while (!(await condition())) {
    if (performance.now() > until) throw new Error(`the condition did not come true within ${deadline} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
