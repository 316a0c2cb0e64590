CREATE TABLE "concerts" (
    "id" TEXT NOT NULL,
    "left" INTEGER NOT NULL,

    CONSTRAINT "concerts_pkey" PRIMARY KEY ("id")
);

CREATE TABLE "mails" (
    "message_id" UUID NOT NULL,
    "concert" TEXT NOT NULL,
    "guest" TEXT NOT NULL,

    CONSTRAINT "mails_pkey" PRIMARY KEY ("message_id")
);
