create table tickets (
  id integer primary key,
  owner text not null,
  subject text not null,
  status text not null,
  minutes integer not null
);
insert into tickets values
  (1, 'ada', 'Invoice of May is missing', 'open', 25),
  (2, 'ben', 'Parcel came back', 'open', 40),
  (3, 'ada', 'Wrong address on the invoice', 'done', 10),
  (4, 'ben', 'Kettle leaks', 'done', 55),
  (5, 'ada', 'Card was charged twice', 'open', 30);

create table articles (id integer primary key, team text not null, title text not null);
insert into articles values
  (1, 'billing', 'How to correct an invoice'),
  (2, 'returns', 'How to take a parcel back'),
  (3, 'legal', 'What a judge has asked for');
