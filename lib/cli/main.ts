#!/usr/bin/env node
import { run } from './run.js';
import { processTerminal } from './process-terminal.js';

const terminal = processTerminal(process);
void run(process.argv.slice(2), terminal).then((code) => terminal.end(code));
