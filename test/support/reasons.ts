import type { OutboxHealth } from '../../lib/index.js';

type Told = Pick<OutboxHealth, 'reasons'>;

export const textsOf = ({ reasons }: Told): readonly string[] => reasons.map(({ text }) => text);
export const codesOf = ({ reasons }: Told): readonly string[] => reasons.map(({ code }) => code);
