create table if not exists `outbox_ready` (
  `transport` smallint not null default 0,
  `id` char(36) character set ascii collate ascii_bin not null default (lower(concat(
    insert(lpad(hex(cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)), 12, '0'), 9, 0, '-'),
    '-7', left(sha2(uuid(), 256), 3),
    '-', substr('89ab', 1 + (conv(left(sha2(uuid(), 256), 2), 16, 10) & 3), 1), left(sha2(uuid(), 256), 3),
    '-', left(sha2(uuid(), 256), 12)))),
  `topic` varchar(255) not null,
  `key` varbinary(255) null,
  `bucket` smallint not null default ((conv(left(sha2(coalesce(`key`, id), 256), 4), 16, 10) % 8)),
  `seq` bigint unsigned not null auto_increment,
  `type` varchar(255) not null default (topic),
  `version` smallint not null default 1,
  `content_type` varchar(255) not null default 'application/json',
  `headers` mediumtext null,
  `options` text null,
  `payload` longblob null,
  `created_at` datetime(6) not null default (utc_timestamp(6)),
  primary key (`transport`, `bucket`, `seq`),
  unique key `by_seq` (`seq`),
  constraint `outbox_ready_limits` check (bucket between 0 and 7)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_parked` (
  `parked_id` bigint unsigned not null auto_increment,
  `transport` smallint not null default 0,
  `id` char(36) character set ascii collate ascii_bin not null default (lower(concat(
    insert(lpad(hex(cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)), 12, '0'), 9, 0, '-'),
    '-7', left(sha2(uuid(), 256), 3),
    '-', substr('89ab', 1 + (conv(left(sha2(uuid(), 256), 2), 16, 10) & 3), 1), left(sha2(uuid(), 256), 3),
    '-', left(sha2(uuid(), 256), 12)))),
  `topic` varchar(255) not null,
  `key` varbinary(255) null,
  `bucket` smallint not null default ((conv(left(sha2(coalesce(`key`, id), 256), 4), 16, 10) % 8)),
  `seq` bigint unsigned not null default 0,
  `type` varchar(255) not null default (topic),
  `version` smallint not null default 1,
  `content_type` varchar(255) not null default 'application/json',
  `headers` mediumtext null,
  `options` text null,
  `payload` longblob null,
  `created_at` datetime(6) not null default (utc_timestamp(6)),
  `state` tinyint not null default 1 check (state between 1 and 4),
  `blocking` tinyint not null default 0,
  `attempts` int not null default 0,
  `due_at` datetime(6) null,
  `attempted_at` datetime(6) null,
  `last_error` text null,
  `errors` mediumtext null,
  `progress` mediumtext null,
  `sending_epoch` bigint unsigned null,
  `parked_at` datetime(6) not null default (utc_timestamp(6)),
  `died_at` datetime(6) null,
  `announced` tinyint not null default 0,
  primary key (`parked_id`),
  key `by_id` (`id`, `transport`),
  key `due` (`transport`, `bucket`, `due_at`, `seq`),
  key `by_key` (`transport`, `bucket`, `blocking`, `key`, `seq`, `parked_id`),
  key `by_state` (`transport`, `state`, `announced`, `died_at`),
  constraint `outbox_parked_limits` check (bucket between 0 and 7)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_archive` (
  `archive_id` bigint unsigned not null auto_increment,
  `transport` smallint not null default 0,
  `id` char(36) character set ascii collate ascii_bin not null default (lower(concat(
    insert(lpad(hex(cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)), 12, '0'), 9, 0, '-'),
    '-7', left(sha2(uuid(), 256), 3),
    '-', substr('89ab', 1 + (conv(left(sha2(uuid(), 256), 2), 16, 10) & 3), 1), left(sha2(uuid(), 256), 3),
    '-', left(sha2(uuid(), 256), 12)))),
  `topic` varchar(255) not null,
  `key` varbinary(255) null,
  `bucket` smallint not null default ((conv(left(sha2(coalesce(`key`, id), 256), 4), 16, 10) % 8)),
  `seq` bigint unsigned not null,
  `type` varchar(255) not null default (topic),
  `version` smallint not null default 1,
  `content_type` varchar(255) not null default 'application/json',
  `headers` mediumtext null,
  `options` text null,
  `payload` longblob null,
  `created_at` datetime(6) not null default (utc_timestamp(6)),
  `attempts` int not null default 0,
  `published_at` datetime(6) not null default (utc_timestamp(6)),
  primary key (`archive_id`),
  key `by_time` (`published_at`)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_dedup` (
  `dedup_key` varbinary(255) not null,
  `id` char(36) character set ascii collate ascii_bin not null,
  `bucket` smallint not null,
  `claim` binary(16) not null,
  `created_at` datetime(6) not null default (utc_timestamp(6)),
  primary key (`dedup_key`),
  key `by_time` (`created_at`),
  key `by_id` (`id`)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_leases` (
  `transport` smallint not null,
  `bucket` smallint not null,
  `owner` varchar(64) character set ascii collate ascii_bin null,
  `epoch` bigint unsigned not null default 0,
  `expires_at` datetime(6) not null default '1970-01-01 00:00:00',
  `crashes` int not null default 0,
  `trial` char(36) character set ascii collate ascii_bin null,
  primary key (`transport`, `bucket`),
  key `by_owner` (`owner`)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_instances` (
  `owner` varchar(64) character set ascii collate ascii_bin not null,
  `transports` text not null,
  `info` text not null,
  `started_at` datetime(6) not null default (utc_timestamp(6)),
  `expires_at` datetime(6) not null,
  primary key (`owner`)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_meta` (
  `name` varchar(100) character set ascii collate ascii_bin not null,
  `value` varchar(255) not null,
  primary key (`name`)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_transports` (
  `id` smallint not null,
  `name` varbinary(255) not null,
  primary key (`id`),
  unique key `by_name` (`name`)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_audit` (
  `audit_id` bigint unsigned not null auto_increment,
  `action` varchar(32) not null,
  `actor` varchar(255) not null,
  `filter` text not null,
  `begun_at` datetime(6) not null default (utc_timestamp(6)),
  `touched_at` datetime(6) not null default (utc_timestamp(6)),
  `ended_at` datetime(6) null,
  `done` bigint unsigned not null default 0,
  `skipped` bigint unsigned not null default 0,
  `outcome` varchar(32) null,
  `error` text null,
  `message_id` char(36) character set ascii collate ascii_bin null,
  `kept` mediumtext null,
  `kept_payload` longblob null,
  primary key (`audit_id`),
  key `by_time` (`begun_at`),
  key `by_message` (`message_id`, `audit_id`)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_pauses` (
  `transport` smallint not null,
  `topic` varbinary(1020) not null,
  `key` varbinary(255) not null,
  `since` datetime(6) not null default (utc_timestamp(6)),
  `actor` varchar(255) not null,
  `reason` varchar(1000) not null,
  primary key (`transport`, `topic`, `key`)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

create table if not exists `outbox_key_locks` (
  `slot` smallint unsigned not null,
  primary key (`slot`)
) engine=InnoDB default charset=utf8mb4 collate=utf8mb4_bin row_format=dynamic;

insert into `outbox_key_locks` (slot) select a.n + 16 * b.n + 256 * c.n + 4096 * d.n
from (select 0 as n union all select 1 as n union all select 2 as n union all select 3 as n union all select 4 as n union all select 5 as n union all select 6 as n union all select 7 as n union all select 8 as n union all select 9 as n union all select 10 as n union all select 11 as n union all select 12 as n union all select 13 as n union all select 14 as n union all select 15 as n) a cross join (select 0 as n union all select 1 as n union all select 2 as n union all select 3 as n union all select 4 as n union all select 5 as n union all select 6 as n union all select 7 as n union all select 8 as n union all select 9 as n union all select 10 as n union all select 11 as n union all select 12 as n union all select 13 as n union all select 14 as n union all select 15 as n) b cross join (select 0 as n union all select 1 as n union all select 2 as n union all select 3 as n union all select 4 as n union all select 5 as n union all select 6 as n union all select 7 as n union all select 8 as n union all select 9 as n union all select 10 as n union all select 11 as n union all select 12 as n union all select 13 as n union all select 14 as n union all select 15 as n) c cross join (select 0 as n union all select 1 as n union all select 2 as n union all select 3 as n union all select 4 as n union all select 5 as n union all select 6 as n union all select 7 as n union all select 8 as n union all select 9 as n union all select 10 as n union all select 11 as n union all select 12 as n union all select 13 as n union all select 14 as n union all select 15 as n) d
where true on duplicate key update slot = slot;

create or replace sql security invoker view `outbox_messages` as
select cast('ready' as char character set utf8mb4) collate utf8mb4_bin as state, transport, bucket, seq, id, topic, cast(`key` as char character set utf8mb4) collate utf8mb4_bin as `key`, type, version, content_type, headers, options, payload, created_at, 0 as attempts, cast(null as datetime(6)) as due_at, cast(null as char character set utf8mb4) as last_error, cast(null as datetime(6)) as published_at, cast(null as datetime(6)) as last_attempt_at, cast(null as char character set utf8mb4) as errors
from `outbox_ready`
union all
select cast(elt(state, 'scheduled', 'waiting', 'blocked', 'dead') as char character set utf8mb4) collate utf8mb4_bin, transport, bucket, seq, id, topic, cast(`key` as char character set utf8mb4) collate utf8mb4_bin as `key`, type, version, content_type, headers, options, payload, created_at, attempts, due_at, last_error, cast(null as datetime(6)), attempted_at, errors
from `outbox_parked`
union all
select cast('published' as char character set utf8mb4) collate utf8mb4_bin, transport, bucket, seq, id, topic, cast(`key` as char character set utf8mb4) collate utf8mb4_bin as `key`, type, version, content_type, headers, options, payload, created_at, attempts, cast(null as datetime(6)), null, published_at, published_at, null
from `outbox_archive`;

insert into `outbox_meta` (name, value) values ('version', '1'), ('buckets', '8'), ('hash', 'sha256/16be'), ('ordering', 'strict'), ('coordination', 'buckets') on duplicate key update value = value;
