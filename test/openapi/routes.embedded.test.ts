import express, { Router } from 'express';
import { describe, expect, it } from 'vitest';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { listMountedRoutes } from './support/mounted-routes.js';
import { createApp } from '../../src/app.js';
import { useService } from '../support/use.js';

const { service } = useService();

describe('the document and the app', () => {
  it('describes every route that is mounted, and mounts every route that is described', async () => {
    const mounted = listMountedRoutes(createApp(service.context, service.running));
    const described = (await describeService(products)).routes
      .map(({ method, path }) => `${method} ${path}`)
      .sort();
    expect(mounted).toEqual(described);
  });
});

describe('the walk over the mounted routes', () => {
  it('finds routes at any depth, with the parameters of every mount', () => {
    const inner = Router().put('/:id', () => undefined);
    inner.get('/', () => undefined);
    const app = express();
    app.use('/organizations/:slug', Router().use('/keys', inner));
    app.use(Router().delete('/sessions', () => undefined));
    app.get(['/a', '/b'], () => undefined);
    expect(listMountedRoutes(app)).toEqual([
      'delete /sessions',
      'get /a',
      'get /b',
      'get /organizations/{slug}/keys',
      'put /organizations/{slug}/keys/{id}',
    ]);
  });

  it('refuses a path that OpenAPI cannot describe', () => {
    const app = express().get('/files/*rest', () => undefined);
    expect(() => listMountedRoutes(app)).toThrow('cannot describe the path /files/*rest');
  });
});
