'use strict';

// The page's own script, in a file because the page's policy forbids inline scripts.
window.addEventListener('DOMContentLoaded', () => {
  window.SwaggerUIBundle({
    url: '/openapi.json',
    dom_id: '#reference',
    deepLinking: true,
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    // Keys stay in this tab's memory, and nothing is sent to a validator elsewhere.
    persistAuthorization: false,
    validatorUrl: null,
    // Routes for API keys refuse a session cookie, which the browser would send along for who is signed in.
    requestInterceptor(request) {
      const { pathname } = new URL(request.url, window.location.href);
      const isForPeople = /^\/(dashboard|login|logout)(\/|$)/.test(pathname);
      request.credentials = isForPeople ? 'same-origin' : 'omit';
      return request;
    },
  });
});
