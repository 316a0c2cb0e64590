-- Rights on MariaDB and MySQL, a paragraph for each user. Run those that you need, as the owner of the tables.
-- Replace the names of the users and of the database `shop`, and a prefix other than `outbox_`.

-- shop_api: a process that only enqueues (relay: false), with stats() and health()
grant select on shop.outbox_meta to shop_api;
grant select on shop.outbox_transports to shop_api;
grant select on shop.outbox_leases to shop_api;
grant select on shop.outbox_instances to shop_api;
grant select on shop.outbox_pauses to shop_api;
grant references, insert (transport, bucket, id, topic, `key`, type, version, content_type, headers, options, payload),
  select (id, transport, bucket, seq, created_at) on shop.outbox_ready to shop_api;
grant references, insert (transport, bucket, id, topic, `key`, type, version, content_type, headers, options, payload, state, due_at),
  select (transport, bucket, `key`, state, attempts, blocking) on shop.outbox_parked to shop_api;
grant insert, select, update on shop.outbox_dedup to shop_api;
grant references on shop.outbox_archive to shop_api;
grant references on shop.outbox_audit to shop_api;

-- shop_operator: requeue, discard, cancel, release, pause, resume and breakLeases
grant select on shop.outbox_meta to shop_operator;
grant select on shop.outbox_transports to shop_operator;
grant select, update (expires_at) on shop.outbox_leases to shop_operator;
grant select on shop.outbox_instances to shop_operator;
grant references, select (id, transport, bucket, seq, created_at, topic, type, `key`, version, content_type), delete on shop.outbox_ready to shop_operator;
grant references, select (parked_id, id, transport, bucket, seq, topic, type, `key`, version, content_type, state, attempts, blocking, due_at, died_at, attempted_at, sending_epoch, created_at, last_error),
  update (state, due_at, attempts, blocking, sending_epoch, died_at, announced), delete on shop.outbox_parked to shop_operator;
grant references on shop.outbox_archive to shop_operator;
grant references, select (dedup_key, id, claim), delete on shop.outbox_dedup to shop_operator;
grant references, select (audit_id, action, actor, filter, begun_at, touched_at, ended_at, done, skipped, outcome, error),
  insert (action, actor, filter), update (done, skipped, outcome, error, touched_at, ended_at) on shop.outbox_audit to shop_operator;
grant select, insert, delete on shop.outbox_pauses to shop_operator;

-- shop_editor: an operator who may also show, edit and purge: these rights beside those of shop_operator
grant select on shop.outbox_ready to shop_editor;
grant select, update (topic, type, content_type, headers, options, payload) on shop.outbox_parked to shop_editor;
grant select, delete on shop.outbox_archive to shop_editor;
grant select, update (message_id, kept, kept_payload) on shop.outbox_audit to shop_editor;

-- A view has the rights of its reader: a dashboard gets one of its own.
create or replace sql security definer view outbox_overview as
  select id, state, transport, topic, `key`, type, version, content_type, created_at, due_at, attempts, last_error, errors, last_attempt_at, published_at, bucket, seq
  from outbox_messages;

-- shop_dashboard: reads messages without payloads, headers and options
grant select on shop.outbox_overview to shop_dashboard;

-- shop_relay: a relay: everything with the rows, nothing with the tables
grant select, insert, update, delete on shop.outbox_ready to shop_relay;
grant select, insert, update, delete on shop.outbox_parked to shop_relay;
grant select, insert, update, delete on shop.outbox_archive to shop_relay;
grant select, insert, update, delete on shop.outbox_dedup to shop_relay;
grant select, insert, update, delete on shop.outbox_leases to shop_relay;
grant select, insert, update, delete on shop.outbox_instances to shop_relay;
grant select, insert, update, delete on shop.outbox_meta to shop_relay;
grant select, insert, update, delete on shop.outbox_transports to shop_relay;
grant select, insert, update, delete on shop.outbox_audit to shop_relay;
grant select, insert, update, delete on shop.outbox_pauses to shop_relay;

-- shop_writer: a program that inserts plain SQL
grant insert (transport, bucket, id, topic, `key`, type, version, content_type, headers, options, payload) on shop.outbox_ready to shop_writer;
grant select on shop.outbox_transports to shop_writer;

-- With ordering: 'strict': all who enqueue need one more right.
grant select, update on shop.outbox_key_locks to shop_api;
grant select, update on shop.outbox_key_locks to shop_operator;
grant select, update on shop.outbox_key_locks to shop_relay;
grant select, update on shop.outbox_key_locks to shop_writer;
