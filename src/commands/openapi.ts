import { buildDocument } from '../core/reference/document.js';
import { products } from '../products.js';
import { describeService } from '../reference.js';

// npm run --silent openapi > openapi.json
const document = buildDocument(await describeService(products));
process.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
