import { join } from 'node:path';
import base from '../../jest.config.mjs';

const { testSequencer: _, ...rest } = base; // which Stryker has of its own
/** Only specs that ask no server. */
export default { ...rest, rootDir: join(import.meta.dirname, '../..'), roots: ['<rootDir>/test/unit'] };
