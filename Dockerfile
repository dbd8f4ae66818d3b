# The tag fixes the Node version. To pin the image by digest, use `--build-arg
# NODE_IMAGE=node:24.21.0-bookworm-slim@sha256:…` with the digest that `docker buildx imagetools inspect` prints.
# Released 2026-09-10.
ARG NODE_IMAGE=node:24.21.0-bookworm-slim
FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY tools ./tools
# --ignore-scripts, because the build script needs sources that are copied later.
RUN npm ci --ignore-scripts
COPY . .
RUN npm run build && npm prune --omit=dev

FROM ${NODE_IMAGE}
# Without a fixed threshold, glibc retains up to 90 MB of freed memory.
ENV NODE_ENV=production HOST=0.0.0.0 MALLOC_TRIM_THRESHOLD_=1048576
WORKDIR /app
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/package.json ./
COPY --from=build /app/dist ./dist
COPY migrations ./migrations
COPY views ./views
# Without DATABASE_URL, the service uses the embedded database, which writes to ./data.
RUN install -d -o node -g node -m 700 data
# By number, because Kubernetes cannot tell that a name is not root.
USER 1000
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.HEALTH_PORT || process.env.PORT || 3000}/readyz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/main.js"]
