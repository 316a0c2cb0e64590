/** What the command line reads, makes and changes the tables of an outbox with, over any data layer. */
export { openTablesDatabase, type OwnSession, type Place, type TablesDatabase } from './database.js';
export { formOf } from './forms.js';
export { stepsOf, type Step } from './steps.js';
