-- The tables that the pipeline `library` fills, and the search over them. They are the user's own: pgstage touches them only
-- through the statements in library.yaml. Can be run again at any time: psql -f schema.sql

begin;
set local client_min_messages = warning; -- no notice about what is there already

create schema if not exists library;

-- The one place that names the language; it decides which words are the same ("keys", "key"). For another one change it here
-- and in no other place, run this file, and have the documents indexed again (README.md).
create or replace function library.language() returns regconfig
language sql immutable parallel safe
return 'pg_catalog.english'::regconfig;

-- What a chunk is found by: its words, and its document's title, which weighs more.
create or replace function library.tsv(title text, body text) returns tsvector
language sql immutable parallel safe
return setweight(to_tsvector(library.language(), title), 'A') || to_tsvector(library.language(), body);

create table if not exists library.document (
    key        text collate "C" primary key, -- the task's key: the path below the source's folder
    title      text not null,
    pages      integer,                      -- null: the format has no pages
    format     text not null,                -- pdf, html, text
    bytes      bigint not null,
    note       text,                         -- what a person may want to know: "no text: ..."
    version    bigint not null,              -- the task's version that these rows show
    indexed_at timestamptz not null default now()
);

create table if not exists library.chunk (
    document text collate "C" not null references library.document (key) on delete cascade,
    ordinal  integer not null,
    text     text not null,
    tsv      tsvector not null,
    primary key (document, ordinal)
);

create index if not exists chunk_tsv on library.chunk using gin (tsv);

-- Any of a text's words, as a query.
create or replace function library.any_word(body text) returns tsquery
language sql immutable parallel safe
return (
    select string_agg('''' || replace(replace(w.word, '\', '\\'), '''', '''''') || '''', '|')
    from unnest(tsvector_to_array(to_tsvector(library.language(), body))) as w (word)
)::tsquery;

-- The best documents for a query as people type it ("exact words", or, -without), best first, one row a document, with its
-- best chunk as the snippet. All words must stand in one chunk or in the title. The rank is how close together they stand in
-- the best chunk, plus how much of the title they are: without the latter, a page on another subject that mentions
-- them often comes before the page that is about them.
create or replace function library.search(query text, max_documents integer default 10)
returns table (rank real, title text, key text, pages integer, snippet text)
language sql stable parallel safe
begin atomic
    with wanted as materialized (
        select websearch_to_tsquery(library.language(), search.query) as words,
               library.any_word(search.query) as any_word
    ),
    best_chunk as (
        select distinct on (c.document)
               c.document, c.text, ts_rank_cd(c.tsv, w.words, 1 | 32) as rank
        from wanted as w
        join library.chunk as c on c.tsv @@ w.words
        order by c.document, rank desc, c.ordinal
    ),
    best_document as (
        select d.key, d.title, d.pages, b.text, b.rank + coalesce(
                   ts_rank(array[0, 0, 0, 1]::real[], library.tsv(d.title, ''), w.any_word, 1), 0) as rank
        from best_chunk as b
        join library.document as d on d.key = b.document
        cross join wanted as w
        order by 5 desc, d.key
        limit search.max_documents
    )
    select b.rank, b.title, b.key, b.pages,
           regexp_replace(
               ts_headline(library.language(), b.text, w.words,
                           'StartSel=«, StopSel=», MaxFragments=2, MinWords=6, MaxWords=22, FragmentDelimiter=" … "'),
               '\s+', ' ', 'g')
    from best_document as b
    cross join wanted as w
    order by b.rank desc, b.key;
end;

commit;
