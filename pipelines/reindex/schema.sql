-- The index that the pipeline `reindex` fills, and the search over it. It lies in a schema of its own; the table of documents
-- is only read. Can be run again at any time: psql -f schema.sql

begin;
set local client_min_messages = warning; -- no notice about what is there already

create schema if not exists reindex;

-- What is indexed. The names of your table and its columns stand here and in triggers.sql, and nowhere else.
create or replace view reindex.source as
select id, title, body from public.documents;

-- The language decides which words are the same ("keys", "key"). After a change run this file, then
--     pgstage rerun reindex --all --yes
create or replace function reindex.language() returns regconfig
language sql immutable parallel safe
return 'pg_catalog.english'::regconfig;

-- What a chunk is found by: its words, and its document's title, which weighs more.
create or replace function reindex.tsv(title text, body text) returns tsvector
language sql immutable parallel safe
return setweight(to_tsvector(reindex.language(), coalesce(title, '')), 'A') || to_tsvector(reindex.language(), body);

-- Tells one state of a document from another.
create or replace function reindex.digest(title text, body text) returns text
language sql stable parallel safe
return md5(row(title, body)::text);

-- A text in pieces of about `size` characters, cut between words. A text without words is one empty piece, so that its
-- document is found by its title.
create or replace function reindex.pieces(body text, size integer) returns table (ordinal bigint, text text)
language sql immutable parallel safe
begin atomic
    with word as (
        select w.word, w.position,
               (sum(length(w.word) + 1) over (order by w.position) - length(w.word) - 1)::bigint / size as piece
        from regexp_split_to_table(btrim(coalesce(pieces.body, ''), E' \t\r\n\f\v'), '\s+') with ordinality as w (word, position)
    )
    select row_number() over (order by piece) - 1, string_agg(word, ' ' order by position) from word group by piece;
end;

create table if not exists reindex.entry (
    id         bigint primary key,          -- the document's, and the task's key
    title      text,
    digest     text not null,               -- of the state that is indexed
    version    bigint not null,             -- the task's version that these rows show
    indexed_at timestamptz not null default now()
);

create table if not exists reindex.chunk (
    id      bigint not null references reindex.entry (id) on delete cascade,
    ordinal bigint not null,
    text    text not null,
    tsv     tsvector not null,
    primary key (id, ordinal)
);

create index if not exists chunk_tsv on reindex.chunk using gin (tsv);

-- Where the index is not what the documents are: empty when the pipeline is idle.
create or replace view reindex.difference as
select coalesce(s.id, e.id) as id,
       case when e.id is null then 'missing' when s.id is null then 'deleted' else 'changed' end as what
from reindex.source as s
full join reindex.entry as e on e.id = s.id
where e.digest is distinct from reindex.digest(s.title, s.body);

-- Submits every document that is not indexed as it is: the first time all of them, later those that were written while the
-- triggers were off. Commits every 1,000: call it outside of a transaction.
create or replace procedure reindex.catch_up()
language plpgsql
as $$
declare
    last bigint;
    keys text[];
begin
    loop
        select array_agg(d.id::text), max(d.id) into keys, last
        from (select id from reindex.difference where last is null or id > last order by id limit 1000) as d;
        exit when keys is null;
        perform from pgstage.submit_set('reindex', keys, null, array_fill(clock_timestamp(), array[cardinality(keys)]),
                                        null, null, true);
        commit;
    end loop;
end
$$;

-- The best documents for a query as people type it ("exact words", or, -without), best first, one row a document, with its
-- best chunk as the snippet. All words must stand in one chunk or in the title. A document that was deleted is never shown,
-- not even before its rows are gone.
create or replace function reindex.search(query text, max_documents integer default 10)
returns table (rank real, id bigint, title text, snippet text)
language sql stable parallel safe
begin atomic
    with best_chunk as (
        select distinct on (c.id) c.id, c.text, ts_rank_cd(c.tsv, q.words, 1 | 32) as rank, q.words
        from websearch_to_tsquery(reindex.language(), search.query) as q (words)
        join reindex.chunk as c on c.tsv @@ q.words
        order by c.id, rank desc, c.ordinal
    ),
    best_document as (
        select b.id, b.text, b.rank, b.words, s.title
        from best_chunk as b
        join reindex.source as s on s.id = b.id
        order by b.rank desc, b.id
        limit search.max_documents
    )
    select b.rank, b.id, b.title,
           ts_headline(reindex.language(), b.text, b.words,
                       'StartSel=«, StopSel=», MaxFragments=2, MinWords=6, MaxWords=22, FragmentDelimiter=" … "')
    from best_document as b
    order by b.rank desc, b.id;
end;

commit;
