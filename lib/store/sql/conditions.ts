/** Conditions that must all hold, and the values of their question marks. */
export interface Conditions {
  readonly conditions: readonly string[];
  readonly values: readonly unknown[];
}

export const ALWAYS: Conditions = { conditions: [], values: [] };

export const condition = (text: string, ...values: readonly unknown[]): Conditions => ({ conditions: [text], values });

export const allOf = (all: readonly Conditions[]): Conditions => ({
  conditions: all.flatMap(({ conditions }) => conditions),
  values: all.flatMap(({ values }) => values),
});

export const whereOf = ({ conditions }: Conditions): string =>
  conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`;
