-- Rights on PostgreSQL, a paragraph for each user. Run those that you need, as the owner of the tables.
-- Replace the names of the users, and a schema other than public or a prefix other than `outbox_`.

-- shop_api: a process that only enqueues (relay: false), with stats() and health()
grant usage on schema public to shop_api;
grant select on outbox_meta, outbox_transports, outbox_leases, outbox_instances, outbox_pauses to shop_api;
grant insert (transport, bucket, id, topic, key, type, version, content_type, headers, options, payload),
  select (id, transport, bucket, seq, created_at) on outbox_ready to shop_api;
grant insert (transport, bucket, id, topic, key, type, version, content_type, headers, options, payload, state, due_at),
  select (id, transport, bucket, seq, key, state, attempts, blocking, due_at, died_at) on outbox_parked to shop_api;
grant insert, select, update (transports, buckets, seqs) on outbox_dedup to shop_api;
grant usage on sequence outbox_ready_seq_seq, outbox_parked_parked_id_seq to shop_api;

-- shop_operator: requeue, discard, cancel, release, pause, resume and breakLeases
grant usage on schema public to shop_operator;
grant select on outbox_meta, outbox_transports, outbox_leases, outbox_instances to shop_operator;
grant update (owner, expires_at) on outbox_leases to shop_operator;
grant select (ctid, id, transport, bucket, seq, created_at, topic, key, type, version, content_type), update (created_at), delete on outbox_ready to shop_operator;
grant select (ctid, parked_id, id, transport, bucket, seq, topic, key, type, version, content_type, state, attempts, blocking, due_at, died_at, attempted_at, sending_epoch, created_at, last_error),
  update (state, due_at, attempts, blocking, sending_epoch, died_at, announced), delete on outbox_parked to shop_operator;
grant select (dedup_key, id, transports, buckets, seqs), update (id), delete on outbox_dedup to shop_operator;
grant select (audit_id, action, actor, filter, begun_at, touched_at, ended_at, done, skipped, outcome, error),
  insert (action, actor, filter), update (done, skipped, outcome, error, touched_at, ended_at) on outbox_audit to shop_operator;
grant select, insert, delete on outbox_pauses to shop_operator;

-- shop_editor: an operator who may also show, edit and purge: these rights beside those of shop_operator
grant select on outbox_ready, outbox_parked, outbox_archive, outbox_audit to shop_editor;
grant update (topic, type, content_type, headers, options, payload) on outbox_parked to shop_editor;
grant update (attempts), delete on outbox_archive to shop_editor;
grant update (message_id, kept, kept_payload) on outbox_audit to shop_editor;

-- shop_dashboard: reads messages without payloads, headers and options
grant usage on schema public to shop_dashboard;
grant select (id, state, transport, topic, key, type, version, content_type, created_at, due_at, attempts, last_error, errors, last_attempt_at, published_at, bucket, seq)
  on outbox_messages to shop_dashboard;

-- shop_relay: a relay: everything with the rows, nothing with the tables
grant usage on schema public to shop_relay;
grant select, insert, update, delete on outbox_ready, outbox_parked, outbox_archive, outbox_dedup, outbox_leases, outbox_instances, outbox_meta, outbox_transports, outbox_audit, outbox_pauses to shop_relay;
grant usage on sequence outbox_ready_seq_seq, outbox_parked_parked_id_seq to shop_relay;

-- shop_writer: a program that inserts plain SQL
grant usage on schema public to shop_writer;
grant insert on outbox_messages to shop_writer;
grant select on outbox_transports to shop_writer;
grant insert (transport, bucket, id, topic, key, type, version, content_type, headers, options, payload),
  select (seq, created_at) on outbox_ready to shop_writer;
grant insert (transport, bucket, id, topic, key, type, version, content_type, headers, options, payload, state, due_at),
  select (seq, created_at) on outbox_parked to shop_writer;
grant usage on sequence outbox_ready_seq_seq, outbox_parked_parked_id_seq to shop_writer;

-- With ordering: 'strict': all who enqueue need one more right.
grant insert (transport, bucket, id, topic, key, type, version, content_type, headers, options, payload, leads, dedup_key) on outbox_staged to shop_api;
grant insert on outbox_staged to shop_relay;
grant insert (transport, bucket, id, topic, key, type, version, content_type, headers, options, payload), select (created_at) on outbox_staged to shop_writer;
